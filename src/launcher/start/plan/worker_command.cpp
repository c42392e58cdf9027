#include "launcher/start/plan/worker_command.h"

#include <cctype>
#include <optional>

#include "base/exit_code.h"
#include "base/text.h"
#include "launcher/start/cli/subcommands.h"
#include "launcher/start/facts/stdin_program.h"

namespace ddp::launcher {

using base::kExitNotExecutable;
using base::kExitNotFound;
using base::kExitUsage;

namespace {

using Refusal = std::optional<StartFailure>;

// Returns a name with its carriage returns made visible. Files from Windows have them.
std::string shown(const std::string& name) {
  std::string text;
  for (const char letter : name) {
    if (letter == '\r') {
      text += "\\r";
    } else {
      text += letter;
    }
  }
  return text;
}

StartFailure not_found(const std::string& start, const std::string& where, const std::string& suggestion) {
  return {kExitNotFound, start + where + "." + (suggestion.empty() ? "" : " Did you mean " + suggestion + "?")};
}

// Checks what applies to scripts and programs alike: the file exists and can be reached.
Refusal check_reachable(const std::string& start, const std::string& name, const ProgramFacts& file, bool by_path) {
  if (file.denied) return StartFailure{kExitNotExecutable, start + "permission denied on a directory of its path."};
  if (file.found) return std::nullopt;
  const bool searched = by_path && name.find('/') == std::string::npos;
  return not_found(start, searched ? "not found in PATH" : "no such file", file.suggestion);
}

Refusal check_format(const std::string& start, const ProgramFacts& program) {
  if (!program.foreign_machine.empty()) {
    return StartFailure{kExitNotExecutable,
                        start + "it is a program for another architecture (" + program.foreign_machine + ")."};
  }
  if (program.format == FileFormat::text) {
    return StartFailure{kExitNotExecutable,
                        start + "it is neither a program nor a script with a #! line. Add one, such as #!/bin/sh."};
  }
  if (program.missing_interpreter.empty()) return std::nullopt;
  const std::string missing = shown(program.missing_interpreter);
  if (program.format == FileFormat::elf) {
    return StartFailure{kExitNotFound,
                        start + "its dynamic loader " + missing +
                            " is missing (built for another system, or 32-bit libraries not installed)."};
  }
  const std::string ending = missing.ends_with("\\r") ? " (its lines end as on Windows; try dos2unix)" : "";
  return StartFailure{kExitNotFound,
                      start + "the interpreter " + missing + " of its #! line is missing" + ending + "."};
}

// Returns "ddplaunch top" if the first word of the command line was probably meant to be this subcommand.
std::string meant_subcommand(const Options& options) {
  const std::vector<std::string>& line = options.command_line;
  const std::string& word = options.command.front();
  if (options.compatibility_mode != CompatibilityMode::native || line.size() < 2 || line[1] != word) return "";
  std::vector<std::string> names;
  for (const Subcommand& each : subcommands()) names.emplace_back(each.name);
  const auto nearest = base::nearest_match(word, names);
  return nearest ? "ddplaunch " + *nearest : "";
}

Refusal check_executable(const std::string& name, const ProgramFacts& program) {
  const std::string start = "cannot start " + name + ": ";
  if (auto refusal = check_reachable(start, name, program, true)) return refusal;
  if (program.is_directory) return StartFailure{kExitNotExecutable, start + "it is a directory."};
  if (program.executable) return check_format(start, program);
  if (program.execute_bits) {
    return StartFailure{kExitNotExecutable,
                        start + "permission denied (executable for others only, or on a file system mounted noexec)."};
  }
  return StartFailure{kExitNotExecutable, start + "not executable. Try chmod +x " + program.path + "."};
}

Refusal check_script(const std::string& name, const ProgramFacts& script) {
  const std::string start = "cannot start " + name + ": ";
  if (auto refusal = check_reachable(start, name, script, false)) return refusal;
  if (script.is_directory && !script.is_package) {
    return StartFailure{kExitNotExecutable, start + "it is a directory without a __main__.py."};
  }
  if (!script.readable) return StartFailure{kExitNotExecutable, start + "permission denied (not readable)."};
  if (script.format == FileFormat::elf) {
    return StartFailure{kExitNotExecutable, start + "it is a native program, not a Python script. Add --no-python."};
  }
  return std::nullopt;
}

// Says where the user has named the interpreter.
struct Naming {
  std::string variable;   // the variable that names the interpreter; empty if none does
  std::string not_there;  // why VIRTUAL_ENV does not; empty if it does, or if nothing asks for it
};

Naming naming_of(const NodeFacts& facts) {
  const auto value = [&](const char* name) { return find_variable(facts.environment, name).value_or(""); };
  if (!value("PYTHON_EXEC").empty()) return {"PYTHON_EXEC", ""};
  const std::string folder = value("VIRTUAL_ENV");
  if (folder.empty()) return {};
  if (facts.interpreter.found && facts.interpreter.path == folder + "/bin/python") return {"VIRTUAL_ENV", ""};
  return {"", "VIRTUAL_ENV=" + folder + " has no bin/python"};
}

Refusal check_interpreter(const std::string& name, const Naming& naming, const ProgramFacts& interpreter) {
  const std::string& variable = naming.variable;
  if (interpreter.found || !variable.empty()) {
    return check_executable(interpreter.path + (variable.empty() ? "" : " (" + variable + ")"), interpreter);
  }
  return StartFailure{kExitNotFound,
                      "cannot start " + name +
                          ": no Python: " + (naming.not_there.empty() ? "" : naming.not_there + ", and ") +
                          "neither python3 nor python is in PATH. Install Python, or set PYTHON_EXEC to its path."};
}

bool continues_name(char letter) {
  return letter == '_' || std::isalnum(static_cast<unsigned char>(letter)) != 0;
}

}  // namespace

ProgramKind program_kind(const Options& options) {
  if (options.run_path) return ProgramKind::script;
  if (options.no_python) return ProgramKind::executable;
  if (options.module) return ProgramKind::module;
  if (options.compatibility_mode != CompatibilityMode::native) return ProgramKind::script;
  return options.command.front().ends_with(".py") ? ProgramKind::script : ProgramKind::executable;
}

FactsWanted facts_wanted(const Options& options) {
  return {program_kind(options), options.command, options.auth_token_file, options.scheduler,
          options.numa_binding.has_value()};
}

base::Result<WorkerCommand, StartFailure> make_worker_command(const Options& options, const NodeFacts& facts) {
  const ProgramKind kind = program_kind(options);
  WorkerCommand command;
  command.what = options.command.front();
  command.local_rank_macro = options.compatibility_mode != CompatibilityMode::native;
  if (kind == ProgramKind::executable) {
    ProgramFacts program = facts.program;
    if (program.suggestion.empty()) program.suggestion = meant_subcommand(options);
    if (auto refusal = check_executable(command.what, program)) return *refusal;
    command.program = facts.program.path;
    command.arguments = options.command;
    return command;
  }
  if (kind == ProgramKind::script && !names_stdin(command.what)) {
    if (auto refusal = check_script(command.what, facts.program)) return *refusal;
  }
  const Naming naming = naming_of(facts);
  if (auto refusal = check_interpreter(command.what, naming, facts.interpreter)) return *refusal;
  if (!naming.not_there.empty()) {
    command.interpreter_note = naming.not_there + ", so the workers run " + facts.interpreter.path;
  }
  command.program = facts.interpreter.path;
  command.arguments = {command.program, "-u"};
  if (kind == ProgramKind::module) command.arguments.emplace_back("-m");
  command.local_rank_argument = options.local_rank_argument;
  command.local_rank_argument_at = command.arguments.size() + 1;
  base::append(command.arguments, options.command);
  return command;
}

std::string substitute_local_rank(const std::string& argument, int local_rank) {
  static constexpr std::string_view kName = "local_rank";
  std::string result;
  for (std::size_t i = 0; i < argument.size();) {
    const std::string_view rest = std::string_view(argument).substr(i);
    const bool braced = rest.starts_with("${local_rank}");
    const std::size_t end = 1 + kName.size();
    const bool plain = rest.starts_with("$local_rank") && (rest.size() == end || !continues_name(rest[end]));
    if (braced || plain) {
      result += std::to_string(local_rank);
      i += end + (braced ? 2 : 0);
    } else if (rest.starts_with("$$")) {
      result += '$';
      i += 2;
    } else {
      result += argument[i++];
    }
  }
  return result;
}

}  // namespace ddp::launcher

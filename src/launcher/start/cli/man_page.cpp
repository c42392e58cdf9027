#include "launcher/start/cli/man_page.h"

#include <ddp/version.h>

#include <array>
#include <span>
#include <string_view>

#include "base/text.h"
#include "launcher/start/cli/job_options.h"
#include "launcher/start/cli/subcommands.h"

namespace ddp::launcher {
namespace {

// Escapes text for troff: dashes can be copied, and no line begins with an accidental request.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else if (c == '\'') {
      result += "\\(aq";
    } else {
      result += c;
    }
  }
  return text.starts_with('.') ? "\\&" + result : result;
}

std::string bold(std::string_view text) {
  return "\\fB" + escaped(text) + "\\fR";
}
std::string italic(std::string_view text) {
  return "\\fI" + escaped(text) + "\\fR";
}

struct ManEntry {
  const char* name;
  const char* text;
};

constexpr std::array kVariables = {
    ManEntry{"PET_NAME",
             "The value of the option --name (PET_NPROC_PER_NODE for --nproc-per-node), unless the command "
             "line has it."},
    ManEntry{"DDP_LOG", "The level of the lines of ddplaunch itself, unless --log-level, -q or -v is given."},
    ManEntry{"DDP_AUTH_TOKEN", "The job's token, unless --auth-token-file is given."},
    ManEntry{"DDP_TORCH", "0 stops ddplaunch from observing PyTorch's process groups."},
    ManEntry{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "The value of --grace when ddplaunch is invoked as torchrun."},
    ManEntry{"OMP_NUM_THREADS",
             "Is passed to the workers. If it is not set, ddplaunch sets it to the worker's share of "
             "the CPUs."},
    ManEntry{"NO_COLOR", "If it is set, no colours are printed."},
};

constexpr std::array kSignals = {
    ManEntry{"SIGINT",
             "Is passed to the process groups of all workers, so that they can save; --grace later they get "
             "SIGTERM, and --grace after that SIGKILL. A second SIGINT kills them at once, on all nodes."},
    ManEntry{"SIGTERM, SIGHUP",
             "Terminate the workers by SIGTERM, and --grace later by SIGKILL. With --save-grace, "
             "SIGTERM and SIGUSR1 ask the program to save and to leave first."},
    ManEntry{"SIGQUIT", "Prints what all ranks do, with their stacks. The job continues."},
    ManEntry{"SIGTSTP, SIGCONT", "Stop and continue the whole job. No time limit runs while it is stopped."},
};

constexpr std::array kFiles = {
    ManEntry{"LOG_DIR/RUN/attempt_N/LOCAL_RANK/",
             "Output (stdout.log, stderr.log) and error file (error.json) of a "
             "worker. RUN is the name of the run."},
    ManEntry{"LOG_DIR/RUN/attempt_N/dump_N.json", "The stacks of all threads of a job that hangs."},
    ManEntry{"/tmp/ddp-run-*", "Sockets and error files of a run without --log-dir. ddplaunch removes them."},
};

std::string section(const char* title, std::span<const ManEntry> entries) {
  std::string text = std::string(".SH ") + title + "\n";
  for (const ManEntry& entry : entries) {
    text += ".IP \"" + bold(entry.name) + "\" 8\n" + escaped(entry.text) + "\n";
  }
  return text;
}

std::string option_entry(const OptionInfo& option) {
  std::string heading = option.short_name.empty() ? "" : bold("-" + option.short_name) + ", ";
  for (const std::string& name : option.names) {
    if (name != option.name()) heading += ", ";
    heading += bold("--" + name);
    if (!option.is_flag() && !option.is_negation(name)) heading += " " + italic(option.value_name);
  }
  std::string text = ".TP\n" + heading + "\n" + escaped(option.help) + "\n";
  if (!option.choices.empty()) {
    text += option.choices_are_examples ? ".br\nKnown words: " : ".br\nChoices: ";
    for (const std::string& choice : option.choices) text += (&choice == &option.choices[0] ? "" : ", ") + bold(choice);
    text += ".\n";
  }
  return text;
}

}  // namespace

std::string man_page() {
  std::string page = ".TH DDPLAUNCH 1 \"\" \"ddplaunch " DDP_VERSION_STRING "\" \"User Commands\"\n";
  page += ".SH NAME\nddplaunch \\- start the workers of a distributed program and watch over them\n";
  page += ".SH SYNOPSIS\n" + bold("ddplaunch") + " [options] " + italic("program") + " [arguments ...]\n";
  for (const Subcommand& each : subcommands()) {
    const std::string name = std::string("ddplaunch ") + each.name;
    for (const std::string& line : base::split(each.usage, '\n')) {
      page += ".br\n" + bold(name) + escaped(std::string_view(line).substr(name.size())) + "\n";
    }
  }
  page += ".SH DESCRIPTION\n" + escaped(kDescription) + "\n.PP\n" + escaped(kProgramRule) + "\n";
  page += ".SH OPTIONS\n";
  std::string group;
  for (const OptionInfo& option : job_options()) {
    if (option.group != group) page += ".SS \"" + escaped(group = option.group) + "\"\n";
    page += option_entry(option);
  }
  for (const Subcommand& each : subcommands()) {
    if (each.description == nullptr) continue;
    std::string name(each.name);
    for (char& c : name) c = static_cast<char>(c - 'a' + 'A');
    page += ".SH \"DDPLAUNCH " + name + "\"\n" + escaped(each.description) + "\n";
    for (const OptionInfo& option : each.options()) page += option_entry(option);
    if (each.exit_codes != nullptr) page += ".PP\n" + escaped(each.exit_codes) + "\n";
  }
  page += ".SH \"EXIT STATUS\"\n" + escaped(kExitCodes) + "\n";
  page += section("ENVIRONMENT", kVariables) + section("FILES", kFiles) + section("SIGNALS", kSignals);
  page += ".SH EXAMPLE\n.EX\n" + escaped("ddplaunch --nproc-per-node=2 ./train --epochs 3") + "\n.EE\n";
  return page;
}

}  // namespace ddp::launcher

#include "launcher/cli/parse.h"

#include <ddp/version.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <optional>

#include "base/text.h"

namespace ddp::launcher {
namespace {

constexpr const char* kDescription =
    "Starts one worker process per GPU (or as many as you say), gives each its rank and a rendezvous store,\n"
    "and ends all of them when one fails.";

constexpr const char* kFooter =
    "Options come before the program; everything after it belongs to the program.\n"
    "Exit code: that of the rank that failed first (128 + n for signal n); 2 usage, 125 ddplaunch's own\n"
    "fault, 126 program not executable, 127 program not found, 130 Ctrl-C, 143 SIGTERM.\n"
    "Example: ddplaunch --nproc-per-node=2 ./train --epochs 3";

// Both spellings of an option, as torchrun has them: "--nproc-per-node" is "--nproc-per-node,--nproc_per_node".
std::string both_spellings(const std::string& name) {
  std::string underscores = name;
  std::replace(underscores.begin() + 2, underscores.end(), '-', '_');
  return underscores == name ? name : name + "," + underscores;
}

class Formatter : public CLI::Formatter {
 public:
  Formatter() { column_width(38); }
  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: ddplaunch [options] program [arguments ...]\n\n";
  }
  // The program is in the usage line; a section of its own would say no more.
  std::string make_positionals(const CLI::App*) const override { return ""; }
};

class Parser {
 public:
  Parser() : app_(kDescription, "ddplaunch") {
    app_.footer(kFooter);
    app_.formatter(std::make_shared<Formatter>());
    app_.set_help_flag("-h,--help", "Print this text and exit");
    app_.add_flag("--version", version_, "Print the version and exit");
    option("--nproc-per-node", options_.nproc_per_node, "N",
           "Workers: a number, auto, gpu (one a GPU) or cpu (one a CPU).\nDefault: one a visible GPU; 1 without GPUs");
    option(
        "--backend", options_.backend, "NAME",
        "Backend of the runtime: nccl, gloo or mpi (DDP_BACKEND).\nDefault: nccl with a GPU for each rank, else gloo")
        ->check(CLI::IsMember({"nccl", "gloo", "mpi"}));
    option("--device-visibility", options_.device_visibility, "WHICH",
           "own: each worker sees its own GPU only; all: every worker\nsees all of them and LOCAL_RANK selects. "
           "Default: own")
        ->check(CLI::IsMember({"own", "all"}));
    app_.add_flag("--oversubscribe", options_.oversubscribe, "Allow more workers than GPUs; they share");
    option("--grace", grace_, "SECONDS", "Time between SIGTERM and SIGKILL when the job is ended. Default: 5");
    option("--rdzv-id", options_.run_id, "ID", "Name of this run (TORCHELASTIC_RUN_ID). Default: a random one");
    option("--role", options_.role, "NAME", "Role of the workers (ROLE_NAME). Default: default");
    app_.add_flag("-q,--quiet", options_.quiet, "No line of ours unless something goes wrong");
    app_.add_flag(both_spellings("--dry-run"), options_.dry_run, "Print the launch plan and exit");
  }

  // CLI11 sees the words before the program only: it gives brackets and the like in a program's arguments a meaning.
  std::variant<Options, Information, UsageError> parse(int argc, const char* const* argv) {
    int program = 1;
    if (auto mistake = find_program(argc, argv, program)) return *mistake;
    try {
      app_.parse(program, argv);
    } catch (const CLI::CallForHelp&) {
      return Information{app_.help()};
    } catch (const CLI::ParseError& error) {
      return UsageError{std::string(error.what()) + ". See ddplaunch --help"};
    }
    if (version_) return Information{"ddplaunch " DDP_VERSION_STRING "\n"};
    if (program < argc && std::string_view(argv[program]) == "--") ++program;
    if (program == argc) {
      return UsageError{"no program given. Usage: ddplaunch [options] program [arguments ...]. See ddplaunch --help"};
    }
    options_.command.assign(argv + program, argv + argc);
    if (grace_.empty()) return options_;
    const auto seconds = base::parse_number(grace_);
    if (!seconds || *seconds > 1e6) {
      return UsageError{"--grace=" + grace_ + " is not a number of seconds. Example: --grace=30"};
    }
    options_.grace = std::chrono::milliseconds(static_cast<std::int64_t>(*seconds * 1000.0));
    return options_;
  }

 private:
  CLI::Option* option(const std::string& name, std::string& value, const char* type, const char* help) {
    return app_.add_option(both_spellings(name), value, help)->type_name(type);
  }

  // Sets `program` to the index of the first word that is neither an option of ours nor an option's value.
  std::optional<UsageError> find_program(int argc, const char* const* argv, int& program) {
    for (; program < argc; ++program) {
      const std::string word = argv[program];
      if (word.size() < 2 || word[0] != '-' || word == "--") return std::nullopt;
      const std::size_t equals = word.find('=');
      const CLI::Option* known = app_.get_option_no_throw(word.substr(0, equals));
      if (known == nullptr) return UsageError{explain_unknown(word.substr(0, equals))};
      const bool has_value = known->get_expected_max() > 0;
      if (!has_value && equals != std::string::npos) {
        return UsageError{word.substr(0, equals) + " takes no value. See ddplaunch --help"};
      }
      if (has_value && equals == std::string::npos) ++program;
    }
    program = argc;
    return std::nullopt;
  }

  std::string explain_unknown(const std::string& word) {
    std::vector<std::string> names;
    for (const CLI::Option* known : app_.get_options()) {
      for (const std::string& name : known->get_lnames()) names.push_back("--" + name);
    }
    // A word that was cut short, as torchrun allows; else the nearest in the user's own spelling of dashes.
    auto nearest = base::nearest_match(word, names);
    for (const std::string& name : names) {
      if (name.starts_with(word)) nearest = name;
    }
    return "unknown option " + word + "." + (nearest ? " Did you mean " + *nearest + "?" : "") +
           " See ddplaunch --help";
  }

  CLI::App app_;
  Options options_;
  std::string grace_;
  bool version_ = false;
};

}  // namespace

std::variant<Options, Information, UsageError> parse_command_line(int argc, const char* const* argv) {
  return Parser().parse(argc, argv);
}

}  // namespace ddp::launcher

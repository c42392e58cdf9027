#include "launcher/start/cli/parse.h"

#include <ddp/version.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

#include "base/text.h"
#include "bench/bench_options.h"
#include "launcher/start/cli/command_words.h"
#include "launcher/start/cli/completion.h"
#include "launcher/start/cli/config_file.h"
#include "launcher/start/cli/help_text.h"
#include "launcher/start/cli/help_topic.h"
#include "launcher/start/cli/job_options.h"
#include "launcher/start/cli/known_errors_page.h"
#include "launcher/start/cli/log_options.h"
#include "launcher/start/cli/man_page.h"
#include "launcher/start/cli/variables.h"

namespace ddp::launcher {

using base::Failure;
using base::Result;

namespace {

using Outcome = ParsedCommand;

// Names the program that `ddplaunch bench` starts, without its folder.
constexpr const char* kBenchProgram = "ddp_bench";

Result<std::vector<Setting>> read_config(const Setting& config, const OptionList& options) {
  errno = 0;
  std::ifstream file(config.value);
  std::ostringstream text;
  // A folder can be opened, but not read.
  if (file && file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (!file.is_open() || file.bad() || (errno != 0 && text.str().empty())) {
    return Failure{config.subject + ": the file cannot be read (" + std::strerror(errno) + "). Check its name."};
  }
  return settings_of_config(config.value, text.str(), options);
}

// Only the launcher that starts the others needs these options: the hosts, how they are reached, and files that are
// read on this node.
constexpr std::string_view kNotForHosts[] = {"hosts",       "hostfile",        "ssh",     "remote-launcher",
                                             "forward-env", "auth-token-file", "dry-run", "json"};

// Returns "--name=value" for each setting that counts, whatever its source is, as the launchers on other hosts get it.
// --json of the doctor, other than that of --dry-run, is for the host that prints the report.
std::vector<std::string> words_for_hosts(std::span<const Setting> settings, bool is_doctor) {
  std::vector<std::string> words;
  for (const Setting& setting : settings) {
    const OptionInfo& option = *setting.option;
    const bool is_for_hosts = std::ranges::find(kNotForHosts, option.name()) == std::end(kNotForHosts) ||
                              (is_doctor && option.name() == "json");
    if (!option.in_files || !is_for_hosts) continue;
    if (!option.repeatable && &setting != last_of(settings, option.name())) continue;
    if (!option.is_flag()) {
      words.push_back("--" + option.name() + "=" + setting.value);
    } else if (setting.value == "1" || option.names.size() > 1) {
      words.push_back("--" + option.names[setting.value == "1" ? 0 : 1]);
    }
  }
  return words;
}

// Returns a warning if a word after a Python script looks like an option of the launcher that the user wanted to give.
std::optional<std::string> option_after_script(const Options& options) {
  constexpr std::array<std::string_view, 6> kOfLaunchers = {"nproc-per-node", "nnodes",        "node-rank",
                                                            "max-restarts",   "rdzv-endpoint", "standalone"};
  if (options.module || options.command.empty() || !options.command.front().ends_with(".py")) return std::nullopt;
  for (const std::string& word : std::span(options.command).subspan(1)) {
    const std::string name = word.starts_with("--") ? with_dashes(word.substr(2, word.find('=') - 2)) : "";
    if (std::ranges::find(kOfLaunchers, name) == kOfLaunchers.end()) continue;
    return word + " is passed to " + options.command.front() +
           ", because it follows it. To give it to ddplaunch, write "
           "it before the script";
  }
  return std::nullopt;
}

class CommandLine {
 public:
  CommandLine(std::vector<std::string> words, std::span<const std::string> environment)
      : words_(std::move(words)), environment_(environment) {
    const std::string& path = words_.front();
    if (path.substr(path.rfind('/') + 1) == "torchrun") {
      mode_ = CompatibilityMode::torchrun;
      name_ = "torchrun";
    }
  }

  // The first word may be a subcommand. A program of that name is started as ./NAME.
  Outcome parse() {
    const std::string word = mode_ == CompatibilityMode::native && words_.size() > 1 ? words_[1] : "";
    const auto rest = std::span(words_).subspan(std::min<std::size_t>(2, words_.size()));
    if (word == "help") return help(rest);
    if (word == "store") return subcommand<StoreOptions>(word, rest, false);
    if (word == "report") return subcommand<ReportOptions>(word, rest, true);
    if (word == "top") return subcommand<TopOptions>(word, rest, true);
    if (word == "ls") return subcommand<LsOptions>(word, rest, true);
    if (word == "explain") return subcommand<ExplainOptions>(word, rest, true);
    if (word == "bench" || word == "doctor") return own_program(word, rest);
    if (word == "on-host") return OnHost{};
    if (word == "on-node") return OnNode{};
    if (word == "replay") {
      return UsageError{"ddplaunch " + word + " is reserved for future use. To start a program of that name, write ./" +
                        word + " or its path."};
    }
    if (word == "launch") {
      mode_ = CompatibilityMode::torch_launch;
      name_ += " launch";
    }
    return job(word == "run" || word == "launch" ? rest : std::span(words_).subspan(1));
  }

 private:
  Outcome job(std::span<const std::string> given, const std::string& subcommand = "") {
    Options options = default_options(mode_);
    options.subcommand = subcommand;
    const bool is_bench = subcommand == "bench";
    const bool is_doctor = subcommand == "doctor";
    bench::BenchOptions benchmark;
    OptionSet command(true);
    declare_job_options(command, options);
    if (is_bench) bench::declare_bench_options(command.app(), benchmark);
    if (is_doctor) declare_options(command, options.doctor);
    const auto words = read_words(given, command.options(), mode_, is_bench);
    if (!words) return mistake(words.error().message);
    const auto& [from_words, program, help] = words.value();
    if (help) {
      const bool is_short = from_words.back().subject == "-h" && mode_ == CompatibilityMode::native;
      if (!subcommand.empty()) return Information{subcommand_help(*find_subcommand(subcommand))};
      return Information{is_short ? short_help_text() : help_text(name_)};
    }
    if (auto information = about_itself(from_words)) return *information;

    auto variables = settings_of_variables(environment_, command.options(), mode_);
    if (!variables) return mistake(variables.error().message);
    const auto& [defaults, from_variables, warnings] = variables.value();
    std::vector<Setting> all = log_level_of_variable(environment_, command.options());
    all.insert(all.end(), defaults.begin(), defaults.end());
    if (const Setting* config = last_of(from_words, "config")) {
      const auto from_file = read_config(*config, command.options());
      if (!from_file) return mistake(from_file.error().message);
      all.insert(all.end(), from_file.value().begin(), from_file.value().end());
    }
    all.insert(all.end(), from_variables.begin(), from_variables.end());
    all.insert(all.end(), from_words.begin(), from_words.end());

    if (!is_bench) command.program(program.size(), options.command);
    if (const auto wrong = command.parse(all, program)) return mistake(*wrong);
    if (const auto wrong = check_together(all, options)) return mistake(*wrong);
    if (is_bench) {
      options.command = bench::bench_words(command.app());
      options.command.insert(options.command.begin(), kBenchProgram);
    }
    if (options.command.empty() && !is_doctor) {
      return UsageError{"no program given. Usage: " + name_ + " [options] program [arguments ...]. See " + name_ +
                        " --help"};
    }
    if (options.over_ssh()) options.host_words = words_for_hosts(all, is_doctor);
    base::append(options.warnings, warnings);
    if (const auto warning = option_after_script(options)) options.warnings.push_back(*warning);
    // In a job on several nodes, an operator has usually set these variables, and the user does not see them.
    const std::string used = used_variables(from_variables, from_words);
    if (mode_ == CompatibilityMode::native && options.max_nodes > 1 && !used.empty()) {
      options.warnings.push_back("options set by the environment: " + used);
    }
    return options;
  }

  // Parses the words after a subcommand that starts a program of ddplaunch itself, with the options of a job.
  Outcome own_program(const std::string& subcommand, std::span<const std::string> given) {
    name_ += " " + subcommand;
    if (!given.empty() && given.front() == "help") return Information{subcommand_help(*find_subcommand(subcommand))};
    // The user wants the program's output, without the launcher's own lines and tags.
    std::vector<std::string> words = {"--quiet", "--no-tag"};
    base::append(words, given);
    return job(words, subcommand);
  }

  Outcome help(std::span<const std::string> given) const {
    // `scripts/docs` asks for the pages that are written from tables.
    if (!given.empty() && given.front() == "--markdown") {
      const std::string page = given.size() > 1 ? given[1] : "";
      if (page == "known-errors") return Information{known_errors_page(Language::english)};
      if (page == "known-errors-zh") return Information{known_errors_page(Language::chinese)};
      return Information{command_page()};
    }
    auto text = help_on(given);
    if (!text) return mistake(text.error().message);
    return Information{std::move(text).value()};
  }

  // Parses the words after a subcommand that starts no job.
  template <typename CommandOptions>
  Outcome subcommand(const std::string& word, std::span<const std::string> given, bool options_follow) {
    name_ += " " + word;
    CommandOptions options;
    OptionSet command(false);
    declare_options(command, options);
    const auto words = read_words(given, command.options(), CompatibilityMode::native, options_follow);
    if (!words) return mistake(words.error().message);
    const auto& [settings, others, help] = words.value();
    if (help || (!given.empty() && given.front() == "help"))
      return Information{subcommand_help(*find_subcommand(word))};
    std::vector<Setting> all;
    if constexpr (requires { options.log; }) all = log_level_of_variable(environment_, command.options());
    all.insert(all.end(), settings.begin(), settings.end());
    if (const auto wrong = command.parse(all, {})) return mistake(*wrong);
    if constexpr (requires { options.log; }) choose_log_level(all, options.log);
    if (const auto wrong = check_together(words.value(), options)) return mistake(*wrong);
    return options;
  }

  UsageError mistake(const std::string& what) const {
    return UsageError{what + (what.ends_with('.') || what.ends_with('?') ? "" : ".") + " See " + name_ + " --help"};
  }

  std::optional<Outcome> about_itself(const std::vector<Setting>& settings) const {
    if (last_of(settings, "version") != nullptr) return Information{"ddplaunch " DDP_VERSION_STRING "\n"};
    if (last_of(settings, "man") != nullptr) return Information{man_page()};
    const Setting* completion = last_of(settings, "completion");
    if (completion == nullptr) return std::nullopt;
    if (auto script = completion_script(completion->value)) return Information{*script};
    return mistake(completion->subject + " is not a shell that ddplaunch knows. Use bash, zsh or fish");
  }

  std::vector<std::string> words_;
  std::span<const std::string> environment_;
  CompatibilityMode mode_ = CompatibilityMode::native;
  std::string name_ = "ddplaunch";
};

}  // namespace

Outcome parse_command_line(int argc, const char* const* argv, std::span<const std::string> environment) {
  std::vector<std::string> words(argv, argv + argc);
  if (words.empty()) words.emplace_back("ddplaunch");  // execve() allows an empty list
  return CommandLine(std::move(words), environment).parse();
}

}  // namespace ddp::launcher

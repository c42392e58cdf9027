#include "launcher/cli/parse.h"

#include <ddp/version.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>

#include "launcher/cli/bench_words.h"
#include "launcher/cli/command_words.h"
#include "launcher/cli/completion.h"
#include "launcher/cli/config_file.h"
#include "launcher/cli/help_text.h"
#include "launcher/cli/host_words.h"
#include "launcher/cli/man_page.h"
#include "launcher/cli/settings.h"
#include "launcher/cli/variables.h"

namespace ddp::launcher {

using base::Failure;
using base::Result;

namespace {

using Outcome = ParsedCommand;

// What the first word may ask for instead of naming a program. A program of such a name is started as ./NAME.
enum class Subcommand { run, launch, store, bench, on_host, help, not_yet };
struct ReservedWord {
  std::string_view word;
  Subcommand meaning;
};
constexpr ReservedWord kReservedWords[] = {
    {"run", Subcommand::run},        {"launch", Subcommand::launch},  {"store", Subcommand::store},
    {"bench", Subcommand::bench},    {"help", Subcommand::help},      {"on-host", Subcommand::on_host},
    {"doctor", Subcommand::not_yet}, {"replay", Subcommand::not_yet},
};

// CLI11 knows the table and sees settings in one plain form, "--name value" or "--flag": it gives an empty value, a
// value in brackets and words after the program meanings that nobody asked for. Which value of a repeated option counts
// is decided by it, the last, unless all of them count.
class TableParser {
 public:
  TableParser() {
    app_.set_help_flag();
    for (const OptionSpec& spec : option_table()) {
      const std::string name = "--" + std::string(spec.name);
      CLI::Option* option = spec.kind == OptionKind::flag ? app_.add_flag(name) : app_.add_option(name);
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
      options_.emplace(&spec, option);
    }
  }

  Result<std::vector<Setting>> parse(const std::vector<Setting>& given) {
    std::vector<std::string> words;  // backwards, as CLI11 wants them
    for (auto setting = given.rbegin(); setting != given.rend(); ++setting) {
      const std::string name = "--" + std::string(setting->option->name);
      if (setting->option->kind == OptionKind::flag) {
        words.push_back(name + "=" + (setting->value == "1" ? "true" : "false"));
      } else {
        words.insert(words.end(), {setting->value, name});
      }
    }
    try {
      app_.parse(std::move(words));
    } catch (const CLI::ParseError& error) {
      return Failure{error.what()};
    }
    std::vector<Setting> settings;
    for (const auto& [spec, option] : options_) {
      if (option->count() == 0) continue;
      if (spec->repeatable) {
        std::copy_if(given.begin(), given.end(), std::back_inserter(settings),
                     [&spec = spec](const Setting& setting) { return setting.option == spec; });
        continue;
      }
      const auto last = std::find_if(given.rbegin(), given.rend(),
                                     [&spec = spec](const Setting& setting) { return setting.option == spec; });
      const std::string& value = option->results().back();
      const bool is_flag = spec->kind == OptionKind::flag;
      settings.push_back({spec, is_flag ? (value == "true" ? "1" : "0") : value, last->subject});
    }
    return settings;
  }

 private:
  CLI::App app_;
  std::map<const OptionSpec*, CLI::Option*> options_;
};

Result<std::vector<ConfigEntry>> read_toml(const std::string& text) {
  std::istringstream stream(text);
  std::vector<ConfigEntry> entries;
  try {
    for (CLI::ConfigItem& item : CLI::ConfigTOML().from_config(stream)) {
      entries.push_back({std::move(item.name), std::move(item.inputs), !item.parents.empty()});
    }
  } catch (const CLI::Error& error) {
    return Failure{std::string("cannot be understood: ") + error.what()};
  }
  return entries;
}

Result<std::vector<Setting>> read_config(const Setting& config) {
  errno = 0;
  std::ifstream file(config.value);
  std::ostringstream text;
  // A folder can be opened, but not read.
  if (file && file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (!file.is_open() || file.bad() || (errno != 0 && text.str().empty())) {
    return Failure{config.subject + ": the file cannot be read (" + std::strerror(errno) + "). Check its name."};
  }
  return settings_of_config(config.value, text.str(), read_toml);
}

const Setting* find(const std::vector<Setting>& settings, std::string_view name) {
  const auto found = std::find_if(settings.begin(), settings.end(),
                                  [&](const Setting& setting) { return setting.option->name == name; });
  return found == settings.end() ? nullptr : &*found;
}

class CommandLine {
 public:
  CommandLine(std::vector<std::string> words, std::span<const std::string> environment)
      : words_(std::move(words)), environment_(environment) {
    const std::string& path = words_.front();
    if (path.substr(path.rfind('/') + 1) == "torchrun") {
      manner_ = Manner::torchrun;
      name_ = "torchrun";
    }
  }

  Outcome parse() {
    std::size_t first = 1;
    if (const auto* reserved = subcommand()) {
      ++first;
      if (reserved->meaning == Subcommand::help) return Information{help_text(name_)};
      if (reserved->meaning == Subcommand::not_yet) return not_yet(std::string(reserved->word));
      if (reserved->meaning == Subcommand::store) return store(std::span(words_).subspan(first));
      if (reserved->meaning == Subcommand::on_host) return OnHost{};
      if (reserved->meaning == Subcommand::bench) return bench(std::span(words_).subspan(first));
      if (reserved->meaning == Subcommand::launch) {
        manner_ = Manner::torch_launch;
        name_ += " launch";
      }
    }
    return job(std::span(words_).subspan(first), {}, help_text(name_));
  }

 private:
  // `program`: put before what the words say.
  Outcome job(std::span<const std::string> given, const std::vector<std::string>& program, const std::string& help) {
    auto words = read_words(given, manner_);
    if (!words) return mistake(words.error().message);
    if (words.value().help) return Information{help};
    const auto settings = TableParser().parse(words.value().settings);
    if (!settings) return mistake(settings.error().message);
    if (auto information = about_itself(settings.value())) return *information;
    words.value().program.insert(words.value().program.begin(), program.begin(), program.end());
    return options(settings.value(), std::move(words.value().program));
  }

  Outcome bench(std::span<const std::string> words) {
    name_ += " bench";
    if (!words.empty() && words.front() == "help") return Information{bench_help_text()};
    const BenchWords split = split_bench_words(words);
    Outcome outcome = job(split.launcher, {kBenchProgram}, bench_help_text());
    if (auto* options = std::get_if<Options>(&outcome)) {
      options->bench = true;
      options->command.insert(options->command.end(), split.program.begin(), split.program.end());
    }
    return outcome;
  }

  const ReservedWord* subcommand() const {
    if (manner_ != Manner::native || words_.size() < 2) return nullptr;
    const auto* found = std::find_if(std::begin(kReservedWords), std::end(kReservedWords),
                                     [&](const ReservedWord& reserved) { return reserved.word == words_[1]; });
    return found == std::end(kReservedWords) ? nullptr : found;
  }

  static Outcome store(std::span<const std::string> words) {
    if (!words.empty() && words.front() == "help") return Information{store_help_text()};
    const auto settings = read_words(words, Manner::native, store_option_table());
    if (settings && settings.value().help) return Information{store_help_text()};
    const auto options = settings ? make_store_options(settings.value()) : settings.error();
    if (options) return options.value();
    const std::string& what = options.error().message;
    return UsageError{what + (what.ends_with('.') || what.ends_with('?') ? "" : ".") + " See ddplaunch store --help"};
  }

  UsageError mistake(const std::string& what) const {
    return UsageError{what + (what.ends_with('.') || what.ends_with('?') ? "" : ".") + " See " + name_ + " --help"};
  }

  static UsageError not_yet(const std::string& word) {
    return UsageError{"ddplaunch " + word +
                      " is reserved and does nothing yet. To start a program of that name, write " + "./" + word +
                      " or its path."};
  }

  std::optional<Outcome> about_itself(const std::vector<Setting>& settings) const {
    if (find(settings, "version") != nullptr) return Information{"ddplaunch " DDP_VERSION_STRING "\n"};
    if (find(settings, "man") != nullptr) return Information{man_page()};
    const Setting* completion = find(settings, "completion");
    if (completion == nullptr) return std::nullopt;
    if (auto script = completion_script(completion->value)) return Information{*script};
    return mistake(completion->subject + " is not a shell that ddplaunch knows. Use bash, zsh or fish");
  }

  Outcome options(const std::vector<Setting>& from_words, std::vector<std::string> program) {
    auto variables = settings_of_variables(environment_, manner_);
    if (!variables) return mistake(variables.error().message);
    std::vector<Setting> all = std::move(variables.value().defaults);
    if (const Setting* config = find(from_words, "config")) {
      const auto from_file = read_config(*config);
      if (!from_file) return mistake(from_file.error().message);
      all.insert(all.end(), from_file.value().begin(), from_file.value().end());
    }
    const auto& from_variables = variables.value().settings;
    all.insert(all.end(), from_variables.begin(), from_variables.end());
    all.insert(all.end(), from_words.begin(), from_words.end());

    auto made = make_options(all, manner_);
    if (!made) return mistake(made.error().message);
    if (program.empty()) {
      return UsageError{"no program given. Usage: " + name_ + " [options] program [arguments ...]. See " + name_ +
                        " --help"};
    }
    Options result = std::move(made).value();
    result.command = std::move(program);
    if (result.over_ssh()) result.host_words = words_for_hosts(all);
    if (result.color == Color::automatic && wants_no_color(environment_)) result.color = Color::never;
    const auto& warnings = variables.value().warnings;
    result.warnings.insert(result.warnings.end(), warnings.begin(), warnings.end());
    // In a job on several nodes they come from an operator, as a rule, and are in nobody's sight.
    const std::string used = used_variables(from_variables, from_words);
    if (manner_ == Manner::native && result.max_nodes > 1 && !used.empty()) {
      result.warnings.push_back("options of the environment: " + used);
    }
    return result;
  }

  std::vector<std::string> words_;
  std::span<const std::string> environment_;
  Manner manner_ = Manner::native;
  std::string name_ = "ddplaunch";
};

}  // namespace

Outcome parse_command_line(int argc, const char* const* argv, std::span<const std::string> environment) {
  std::vector<std::string> words(argv, argv + argc);
  if (words.empty()) words.emplace_back("ddplaunch");  // execve allows that
  return CommandLine(std::move(words), environment).parse();
}

}  // namespace ddp::launcher

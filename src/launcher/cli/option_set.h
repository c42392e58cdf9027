// OptionSet: the options of one command of ddplaunch, declared at a CLI::App. The parser, --help, the manual page and
// the completions walk them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace ddp::launcher {

// What is wrong with a value, as it follows "--name=value": " is empty. Name a file."
using Mistake = std::optional<std::string>;
using Take = std::function<Mistake(const std::string& value)>;

// Takes any value, of an option whose settings are looked at otherwise.
inline Mistake accept(const std::string& /*value*/) {
  return std::nullopt;
}

// Takes a text that is not empty; `what` names it in the message: "a file".
template <typename Text>
Take some_text(Text& target, const char* what) {
  return [&target, what](const std::string& value) {
    if (value.empty()) return Mistake(std::string(" is empty. Name ") + what + ".");
    target = value;
    return Mistake();
  };
}

// Takes a number from `minimum` to `maximum`.
template <typename Number = int, typename T>
Take integer(T& target, int minimum, int maximum) {
  return [&target, minimum, maximum](const std::string& text) {
    if (const auto number = base::parse_integer(text, minimum, maximum)) {
      target = static_cast<Number>(*number);
      return Mistake();
    }
    return Mistake(" is not a number from " + std::to_string(minimum) + " to " + std::to_string(maximum) + ".");
  };
}

// What CLI11 holds of an option.
struct OptionInfo {
  std::vector<std::string> names;  // with dashes; the first one is its own, and "no-" before that means off or empty
  std::vector<std::string> old_names;  // are accepted, but not shown
  std::string short_name;              // "m" for -m; or empty
  std::string value_name;              // "SECONDS"; FILE, DIR: a path. Empty: a flag
  std::vector<std::string> choices;    // empty: any value
  bool choices_are_examples = false;   // other values exist
  bool repeatable = false;             // all values count, in their order; else the last one
  std::string variable;                // "PET_GRACE"; empty: no variable sets it
  bool in_files = true;                // --config may set it
  std::string group;
  std::string help;  // one paragraph of plain text

  const std::string& name() const { return names.front(); }
  bool is_flag() const { return value_name.empty(); }
  bool is_negation(std::string_view name) const { return name == "no-" + names.front(); }
};
using OptionList = std::vector<OptionInfo>;

std::string with_dashes(std::string_view name);
std::string with_underscores(std::string_view name);

// By any of its names, old ones too, without leading dashes, in either spelling; or by its short name. nullptr for any
// other word.
const OptionInfo* find_option(std::string_view name, const OptionList& options);
const OptionInfo* find_short_option(char name, const OptionList& options);

// "unknown option --grcae. Did you mean --grace?", with the nearest name in the user's own spelling of dashes, if any.
std::string unknown_option(const std::string& word, const OptionList& options);

// "PET_NPROC_PER_NODE" for "nproc-per-node".
std::string variable_of(std::string_view option_name);

// A value for an option, wherever it comes from.
struct Setting {
  const OptionInfo* option = nullptr;
  std::string value;    // of a flag: "1" or "0"
  std::string subject;  // how messages name it: "--grace=soon", "PET_GRACE=soon", "job.toml:3: grace=soon"
};

// nullptr if there is none.
const Setting* last_of(std::span<const Setting> settings, std::string_view option_name);

class OptionSet {
 public:
  // `has_variables`: PET_ variables may set its options.
  explicit OptionSet(bool has_variables);
  ~OptionSet();

  // The title under which --help lists the options that are declared next.
  void group(std::string title) { group_ = std::move(title); }

  // Declares an option; `names` as "-t,--tee", or "--tag,--no-tag"; `value_name` as "SECONDS", or "N:{auto,gpu,...}"
  // with values that it may have among others. Of a repeated option the last value is taken, unless the caller says
  // otherwise of what is returned. What `take` refers to outlives parse().
  CLI::Option* value(const std::string& names, const std::string& value_name, Take take, const char* help);
  CLI::Option* flag(const std::string& names, Take take, const char* help) { return value(names, "", take, help); }
  CLI::Option* flag(const std::string& names, bool& target, const char* help);
  // A value that is one of `choices`, which are separated by spaces; or `several` of them, joined by commas.
  CLI::Option* choice(const std::string& names, const std::string& value_name, std::string_view choices, Take take,
                      const char* help, bool several = false);
  // `old`, without dashes, stays another name of the option `name`, and of its variable, that no text shows.
  void keep_old_name(std::string old, std::string name) { old_names_.emplace_back(std::move(old), std::move(name)); }
  // `count` words, verbatim, after the options.
  void program(std::size_t count, std::vector<std::string>& target);

  CLI::App& app() { return *app_; }
  const OptionList& options();

  // Sets what the options and the `words` after them are bound to. A later setting of an option replaces an earlier
  // one, whose value is not looked at, unless the option is repeatable. Returns a sentence for the user if one is
  // wrong.
  std::optional<std::string> parse(std::span<const Setting> settings, std::span<const std::string> words);

 private:
  void take_values(const std::string& name, const Take& take) const;

  const std::unique_ptr<CLI::App> app_;
  const bool has_variables_;
  std::string group_ = "Options";
  std::vector<std::pair<std::string, std::string>> old_names_;  // with the options that have them
  OptionList options_;
  std::span<const Setting> settings_;  // during parse()
};

}  // namespace ddp::launcher

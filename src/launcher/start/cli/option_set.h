// OptionSet holds the options of one command of ddplaunch, declared at a CLI::App. The parser, --help, the manual page
// and the completions use them.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "launcher/start/cli/choices.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace ddp::launcher {

// Says what is wrong with a value, as the text after "--name=value": " is empty. Name a file."
using Mistake = std::optional<std::string>;
using Take = std::function<Mistake(const std::string& value)>;

// Takes any value, for an option whose settings are used in another way.
inline Mistake accept(const std::string& /*value*/) {
  return std::nullopt;
}

// Takes a text that is not empty. `what` names it in the message: "a file".
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

// Describes an option as CLI11 holds it.
struct OptionInfo {
  // The names have dashes. The first one is the option's own name; "no-" before it means off or empty.
  std::vector<std::string> names;
  std::string short_name;             // "m" for -m; empty if there is none
  std::string value_name;             // "SECONDS"; FILE and DIR mean a path; empty for a flag
  std::vector<std::string> choices;   // empty if any value is accepted
  bool choices_are_examples = false;  // other values exist
  std::string implied;                // the value if the option stands alone; empty if it needs one
  bool repeatable = false;            // all values count, in their order; otherwise the last one
  std::string variable;               // "PET_GRACE"; empty if no variable sets it
  bool in_files = true;               // --config may set it
  std::string group;
  std::string help;  // one paragraph of plain text

  const std::string& name() const { return names.front(); }
  bool is_flag() const { return value_name.empty(); }
  bool is_negation(std::string_view name) const { return name == "no-" + names.front(); }
};
using OptionList = std::vector<OptionInfo>;

std::string with_dashes(std::string_view name);
std::string with_underscores(std::string_view name);

// Finds an option by any of its names, including old ones, without leading dashes and in either spelling, or by its
// short name. Returns null for any other word.
const OptionInfo* find_option(std::string_view name, const OptionList& options);
const OptionInfo* find_short_option(char name, const OptionList& options);

// Returns "unknown option --grcae. Did you mean --grace?". The nearest name, if there is one, has the user's own
// spelling of dashes.
std::string unknown_option(const std::string& word, const OptionList& options);

// Returns "PET_NPROC_PER_NODE" for "nproc-per-node".
std::string variable_of(std::string_view option_name);

// Represents a value for an option, whatever its source is.
struct Setting {
  const OptionInfo* option = nullptr;
  std::string value;    // "1" or "0" for a flag
  std::string subject;  // name in messages: "--grace=soon", "PET_GRACE=soon", "job.toml:3: grace=soon"
};

// Returns null if there is none.
const Setting* last_of(std::span<const Setting> settings, std::string_view option_name);

class OptionSet {
 public:
  // `has_variables` means that PET_ variables may set the options.
  explicit OptionSet(bool has_variables);
  ~OptionSet();

  // Sets the title under which --help lists the options that are declared next.
  void group(std::string title) { group_ = std::move(title); }

  // Declares an option. `names` looks like "-t,--tee" or "--tag,--no-tag". `value_name` looks like "SECONDS", or like
  // "N:{auto,gpu,...}" with some of the possible values. If an option is repeated, the last value is used, unless the
  // caller changes that with the returned object. The objects that `take` refers to must outlive parse().
  CLI::Option* value(const std::string& names, const std::string& value_name, Take take, const char* help);
  CLI::Option* flag(const std::string& names, Take take, const char* help) { return value(names, "", take, help); }
  CLI::Option* flag(const std::string& names, bool& target, const char* help);
  // Declares an option whose value is one of `choices`, which are separated by spaces. With `several`, it may be
  // several of them, joined by commas.
  CLI::Option* choice(const std::string& names, const std::string& value_name, std::string_view choices, Take take,
                      const char* help, bool several = false);
  // Makes the value optional, which this one then is.
  static void implies(CLI::Option* option, const char* value);
  // Declares an option whose value is a name of an enumeration.
  template <typename Choice, typename T>
  CLI::Option* choice_of(const std::string& names, const std::string& value_name, T& target, const char* help) {
    const auto take = [&target, known = base::split(kNamesOf<Choice>, ' ')](const std::string& value) {
      target = static_cast<Choice>(std::ranges::find(known, value) - known.begin());
      return Mistake();
    };
    return choice(names, value_name, kNamesOf<Choice>, take, help);
  }
  // Takes `count` words, verbatim, after the options.
  void program(std::size_t count, std::vector<std::string>& target);

  CLI::App& app() { return *app_; }
  const OptionList& options();

  // Sets the variables to which the options and the `words` after them are bound. A later setting of an option replaces
  // an earlier one, unless the option is repeatable. The earlier value is then not checked. Returns a sentence for the
  // user if a setting is wrong.
  std::optional<std::string> parse(std::span<const Setting> settings, std::span<const std::string> words);

 private:
  void take_values(const std::string& name, const Take& take) const;

  const std::unique_ptr<CLI::App> app_;
  const bool has_variables_;
  std::string group_ = "Options";
  OptionList options_;
  std::span<const Setting> settings_;  // set during parse()
};

}  // namespace ddp::launcher

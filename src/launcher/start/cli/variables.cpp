#include "launcher/start/cli/variables.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "base/text.h"

namespace ddp::launcher {
namespace {

constexpr std::string_view kPrefix = "PET_";

std::string no_such_variable(const std::string& variable, const OptionInfo* option, const OptionList& options) {
  if (option != nullptr) {
    return variable + " has no effect: --" + option->name() + " is read from the command line" +
           (option->variable.empty() && option->in_files ? " or --config" : "") + " only";
  }
  std::vector<std::string> known;
  for (const OptionInfo& each : options) {
    if (!each.variable.empty()) known.push_back(each.variable);
  }
  const auto nearest = base::nearest_match(variable, known);
  return variable + " has no effect: no option has this name" + (nearest ? "; did you mean " + *nearest + "?" : "");
}

}  // namespace

std::optional<std::string> parse_whole_flag(const std::string& text) {
  const auto number =
      base::parse_integer(text, std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max());
  if (!number) return std::nullopt;
  return *number == 0 ? "0" : "1";
}

base::Result<VariableSettings> settings_of_variables(std::span<const std::string> environment,
                                                     const OptionList& options, CompatibilityMode mode) {
  VariableSettings result;
  for (const std::string& line : environment) {
    const std::size_t equals = line.find('=');
    const std::string variable = line.substr(0, equals);
    if (equals == std::string::npos) continue;
    if (mode != CompatibilityMode::native && variable == "TORCH_ELASTIC_SHUTDOWN_TIMEOUT") {
      result.defaults.push_back({find_option("grace", options), line.substr(equals + 1), line});
    }
    if (!variable.starts_with(kPrefix)) continue;
    std::string name;
    const auto option = std::ranges::find_if(options, [&](const OptionInfo& each) {
      const auto named = std::ranges::find(each.names, variable, variable_of);
      if (named != each.names.end()) name = *named;
      return named != each.names.end();
    });
    if (option == options.end() || option->variable.empty() || option->is_negation(name)) {
      result.warnings.push_back(no_such_variable(variable, option == options.end() ? nullptr : &*option, options));
      continue;
    }
    Setting setting{&*option, line.substr(equals + 1), line};
    if (option->is_flag()) {
      const auto flag = parse_whole_flag(setting.value);
      if (!flag) return base::Failure{line + " is not a whole number. Use 1 (on) or 0 (off)."};
      setting.value = *flag;
    }
    result.settings.push_back(std::move(setting));
  }
  return result;
}

std::string used_variables(std::span<const Setting> from_variables, std::span<const Setting> from_words) {
  std::vector<std::string> used;
  for (const Setting& setting : from_variables) {
    if (last_of(from_words, setting.option->name()) == nullptr) used.push_back(setting.subject);
  }
  std::ranges::sort(used);
  return base::join(used, ", ");
}

}  // namespace ddp::launcher

#include "launcher/cli/variables.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>

#include "base/text.h"

namespace ddp::launcher {
namespace {

constexpr std::string_view kPrefix = "PET_";

std::optional<std::string> value_of(std::span<const std::string> environment, std::string_view name) {
  for (const std::string& line : environment) {
    if (line.size() > name.size() && line[name.size()] == '=' && line.starts_with(name)) {
      return line.substr(name.size() + 1);
    }
  }
  return std::nullopt;
}

// The name of a variable without its prefix, as an option is spelt: "NPROC_PER_NODE" is "nproc-per-node".
std::string option_name(std::string_view variable) {
  std::string name = with_dashes(variable);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c); });
  return name;
}

std::string no_such_variable(const std::string& variable, const OptionSpec* option) {
  if (option != nullptr) {
    return variable + " has no effect: --" + std::string(option->name) + " is taken from the command line" +
           (option->sources == OptionSources::no_variable ? " or --config" : "") + " only";
  }
  std::vector<std::string> known;
  for (const OptionSpec& each : option_table()) {
    if (each.sources == OptionSources::all) known.push_back(variable_of(each.name));
  }
  const auto nearest = base::nearest_match(variable, known);
  return variable + " has no effect: no option has this name" + (nearest ? "; did you mean " + *nearest + "?" : "");
}

}  // namespace

base::Result<std::string> parse_variable_flag(const std::string& text) {
  const auto number =
      base::parse_integer(text, std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max());
  if (!number) return base::Failure{" is not a whole number. Use 1 (on) or 0 (off)."};
  return std::string(*number == 0 ? "0" : "1");
}

base::Result<VariableSettings> settings_of_variables(std::span<const std::string> environment, Manner manner) {
  VariableSettings result;
  if (manner != Manner::native) {
    const std::string name = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT";
    if (const auto value = value_of(environment, name)) {
      result.defaults.push_back({find_option("grace"), *value, name + "=" + *value});
    }
  }
  for (const std::string& line : environment) {
    const std::size_t equals = line.find('=');
    if (!line.starts_with(kPrefix) || equals == std::string::npos) continue;
    const std::string variable = line.substr(0, equals);
    const std::string name = option_name(variable.substr(kPrefix.size()));
    const OptionSpec* option = find_option(name);
    if (option == nullptr || option->sources != OptionSources::all || is_negation(*option, name) ||
        (name != option->name && name != option->second_name) || variable != variable_of(name)) {
      result.warnings.push_back(no_such_variable(variable, option));
      continue;
    }
    Setting setting{option, line.substr(equals + 1), line};
    if (option->kind == OptionKind::flag) {
      auto flag = parse_variable_flag(setting.value);
      if (!flag) return base::Failure{line + flag.error().message};
      setting.value = flag.value();
    }
    result.settings.push_back(std::move(setting));
  }
  return result;
}

std::string used_variables(std::span<const Setting> from_variables, std::span<const Setting> from_words) {
  std::vector<std::string> used;
  for (const Setting& setting : from_variables) {
    const bool is_overridden = std::any_of(from_words.begin(), from_words.end(),
                                           [&](const Setting& word) { return word.option == setting.option; });
    if (!is_overridden) used.push_back(setting.subject);
  }
  std::sort(used.begin(), used.end());
  return base::join(used, ", ");
}

bool wants_no_color(std::span<const std::string> environment) {
  const auto value = value_of(environment, "NO_COLOR");
  return value && !value->empty();
}

}  // namespace ddp::launcher

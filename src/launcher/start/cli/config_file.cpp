#include "launcher/start/cli/config_file.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <set>
#include <sstream>

#include "base/text.h"
#include "launcher/start/cli/variables.h"

namespace ddp::launcher {

using base::Failure;
using base::Result;
using Json = nlohmann::json;

namespace {

constexpr std::string_view kSpaces = " \t\r";

using Entries = std::vector<CLI::ConfigItem>;

Result<Entries> read_json(const std::string& text) {
  std::set<std::string> keys;
  std::string repeated;
  const auto watch = [&](int depth, Json::parse_event_t event, const Json& parsed) {
    if (event == Json::parse_event_t::key && depth == 1 && !keys.insert(parsed.get<std::string>()).second) {
      repeated = parsed.get<std::string>();
    }
    return true;
  };
  Json document;
  try {
    document = Json::parse(text, watch);
  } catch (const Json::exception& error) {
    return Failure{std::string("is not JSON: ") + error.what()};
  }
  if (!document.is_object()) return Failure{"is not a JSON object. Example: {\"nproc-per-node\": 2}"};
  if (!repeated.empty()) return Failure{"sets " + repeated + " twice. Keep one"};
  Entries entries;
  for (const auto& [key, value] : document.items()) {
    CLI::ConfigItem entry;
    entry.name = key;
    const Json list = value.is_array() ? value : Json::array({value});
    for (const Json& element : list) {
      if (element.is_structured() || element.is_null()) {
        return Failure{"gives " + key + " a value that is neither a string, a number, true, false nor a list"};
      }
      entry.inputs.push_back(element.is_string() ? element.get<std::string>() : element.dump());
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

Result<Entries> read_toml(const std::string& text) try {
  std::istringstream stream(text);
  return CLI::ConfigTOML().from_config(stream);
} catch (const CLI::Error& error) {
  return Failure{std::string("cannot be parsed: ") + error.what()};
}

bool has_hash_in_quotes(const std::string& line) {
  char quote = '\0';
  for (const char c : line) {
    if (c == '#') return quote != '\0';
    if (quote == '\0' && (c == '"' || c == '\'')) {
      quote = c;
    } else if (c == quote) {
      quote = '\0';
    }
  }
  return false;
}

// Returns the numbers of the lines, from 1, that contain a key.
std::vector<std::size_t> lines_of(const std::string& key, const std::vector<std::string>& lines) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::string name = base::trimmed(lines[i].substr(0, lines[i].find('=')), kSpaces);
    if (name.size() > 1 && (name.front() == '"' || name.front() == '\'') && name.front() == name.back()) {
      name = name.substr(1, name.size() - 2);
    }
    if (name == key) found.push_back(i + 1);
  }
  return found;
}

// Returns a message about text that CLI11's reader skips or cuts silently, or std::nullopt if there is none.
std::optional<std::string> overlooked(const std::string& path, const std::vector<std::string>& lines) {
  bool in_list = false;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string line = base::trimmed(lines[i], kSpaces);
    const std::string where = path + ":" + std::to_string(i + 1) + ": ";
    if (has_hash_in_quotes(line)) return where + "a # within quotes is not supported here. Use a JSON file instead.";
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (!in_list && line.size() < 3) return where + "\"" + line + "\" is not of the form NAME = VALUE.";
    const std::string value = base::trimmed(line.substr(line.find('=') + 1), kSpaces);
    in_list = in_list || (line.find('=') != std::string::npos && value.starts_with("["));
    if (in_list && line.substr(0, line.find('#')).find(']') != std::string::npos) in_list = false;
  }
  if (in_list) return path + ": a list begins with [ but has no closing ].";
  return std::nullopt;
}

Result<Setting> setting_of(const CLI::ConfigItem& entry, const OptionList& options, const std::string& where) {
  if (!entry.parents.empty())
    return Failure{where + "sections are not supported. Write all options outside of sections."};
  const OptionInfo* option = find_option(entry.name, options);
  const bool negated = option != nullptr && option->is_negation(with_dashes(entry.name));
  if (option != nullptr && (!option->in_files || negated)) {
    return Failure{where + entry.name + " cannot be set in a file." + (negated ? " Use " + option->name() + "." : "")};
  }
  if (option == nullptr) return Failure{where + unknown_option(entry.name, options)};
  for (const std::string& value : entry.inputs) {
    if (entry.inputs.size() == 1 || value.find(',') == std::string::npos) continue;
    return Failure{where + entry.name +
                   " has a comma within an element of its list. Write one string; where an option allows commas, a,,b "
                   "means the text a,b."};
  }
  std::string value = base::join(entry.inputs, ",");
  const std::string subject = where + entry.name + "=" + value;
  if (option->is_flag()) {
    const auto flag = value == "true" ? "1" : value == "false" ? "0" : parse_whole_flag(value);
    if (!flag) return Failure{subject + " is neither true nor false."};
    value = *flag;
  }
  return Setting{option, value, subject};
}

}  // namespace

Result<std::vector<Setting>> settings_of_config(const std::string& path, const std::string& text,
                                                const OptionList& options) {
  const bool is_json = path.ends_with(".json");
  const std::vector<std::string> lines = is_json ? std::vector<std::string>{} : base::split(text, '\n');
  if (auto mistake = overlooked(path, lines)) return Failure{*mistake};
  const auto entries = is_json ? read_json(text) : read_toml(text);
  if (!entries) return Failure{path + " " + entries.error().message + "."};

  std::vector<Setting> settings;
  std::set<const OptionInfo*> given;
  for (const CLI::ConfigItem& entry : entries.value()) {
    const auto at = lines_of(entry.name, lines);
    const std::string where = path + ":" + (at.empty() ? "" : std::to_string(at.back()) + ":") + " ";
    auto setting = setting_of(entry, options, where);
    if (!setting) return setting.error();
    if (at.size() > 1 || !given.insert(setting.value().option).second) {
      return Failure{where + setting.value().option->name() + " is given twice. Keep one."};
    }
    settings.push_back(std::move(setting).value());
  }
  return settings;
}

}  // namespace ddp::launcher

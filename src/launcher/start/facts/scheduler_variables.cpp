#include "launcher/start/facts/scheduler_variables.h"

#include <algorithm>

#include "base/text.h"
#include "launcher/start/facts/host_file.h"
#include "launcher/start/facts/host_list.h"
#include "launcher/start/facts/node_facts.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kWordBytes = 256;
constexpr std::int64_t kNodes = kHosts;

// Returns the strings of a JSON list, or std::nullopt for other JSON. Strings that need an escape are rejected too: no
// host name has one.
std::optional<std::vector<std::string>> json_strings(const std::string& json) {
  const std::string list = base::trimmed(json);
  if (list.size() < 2 || list.front() != '[' || list.back() != ']') return std::nullopt;
  std::vector<std::string> strings;
  for (const std::string& element : base::split(list.substr(1, list.size() - 2), ',')) {
    const std::string word = base::trimmed(element);
    if (word.size() < 3 || word.front() != '"' || word.back() != '"') return std::nullopt;
    strings.push_back(word.substr(1, word.size() - 2));
    if (!std::ranges::all_of(strings.back(), is_host_character)) return std::nullopt;
  }
  return strings;
}

std::string short_name(const std::string& name) {
  return name.substr(0, name.find('.'));
}

HostNames named(std::vector<std::string> names, const std::string& source) {
  const std::string text = base::join(names, ",");
  return {std::move(names), source, text};
}

}  // namespace

std::string assignment(const std::string& name, const std::string& value) {
  return name + "=" + shown(value);
}

std::optional<std::string> SchedulerVariables::find(const std::string& name) const {
  auto value = find_variable(request_.environment, name);
  if (value && value->empty()) value.reset();
  return value;
}

std::optional<std::string> SchedulerVariables::first_of(std::initializer_list<const char*> names,
                                                        std::string& source) const {
  for (const char* name : names) {
    source = name;
    if (auto value = find(name)) return value;
  }
  return std::nullopt;
}

std::optional<Number> SchedulerVariables::number(std::initializer_list<const char*> names, std::int64_t least,
                                                 std::int64_t most) {
  std::string source;
  const auto text = first_of(names, source);
  if (!text) return std::nullopt;
  const auto value = base::parse_integer(*text, least, most);
  if (value) return Number{*value, source};
  refuse(assignment(source, *text) + " is not a number from " + std::to_string(least) + " to " + std::to_string(most));
  return std::nullopt;
}

std::optional<Number> SchedulerVariables::node_count(std::initializer_list<const char*> names) {
  return number(names, 1, kNodes);
}

std::optional<Number> SchedulerVariables::node_rank(std::initializer_list<const char*> names) {
  return number(names, 0, kNodes - 1);
}

std::optional<Number> SchedulerVariables::gpus(std::initializer_list<const char*> names) {
  auto count = number(names, 0, kWorkersOfHost);
  if (count && count->value == 0) return std::nullopt;
  return count;
}

bool SchedulerVariables::exceeds(const char* name, std::int64_t most) {
  const auto value = number({name}, 0, INT32_MAX);
  return value && value->value > most;
}

std::string SchedulerVariables::word(std::initializer_list<const char*> names, std::string_view prefix) {
  std::string source;
  const auto text = first_of(names, source);
  if (!text) return "";
  std::string rest = text->starts_with(prefix) ? text->substr(prefix.size()) : *text;
  const bool printable = std::ranges::all_of(rest, [](char each) { return each > ' ' && each < '\x7f'; });
  if (printable && rest.size() <= kWordBytes) return rest;
  refuse(assignment(source, *text) + " is not a word of at most " + std::to_string(kWordBytes) + " printable bytes");
  return "";
}

HostNames SchedulerVariables::host_list(std::initializer_list<const char*> names) {
  std::string source;
  const auto text = first_of(names, source);
  if (!text) return {};
  auto hosts = expand_host_list(*text);
  if (hosts) return {std::move(hosts).value(), source, *text};
  refuse(source + ": " + hosts.error().message);
  return {};
}

HostNames SchedulerVariables::host_pairs(const char* name) {
  const auto text = find(name);
  if (!text) return {};
  // Each pair is a line of a host file with two words.
  const std::vector<std::string> words = base::words(*text);
  std::string lines;
  for (std::size_t i = 0; i < words.size(); i += 2) {
    lines += words[i] + " " + (i + 1 < words.size() ? words[i + 1] : "?") + "\n";
  }
  return names_in(lines, name, assignment(name, *text) + " is not a list of hosts, each with its number of slots: ");
}

HostNames SchedulerVariables::host_json(const char* name) {
  const auto text = find(name);
  if (!text) return {};
  auto names = json_strings(*text);
  if (!names || names->size() > kHosts) {
    refuse(assignment(name, *text) + " is not a JSON list of at most " + std::to_string(kHosts) + " hosts");
    return {};
  }
  std::ranges::sort(*names);
  return named(std::move(*names), name);
}

HostNames SchedulerVariables::host_file(const char* name) {
  const auto path = find(name);
  const auto content = path && request_.read_file ? request_.read_file(*path) : std::nullopt;
  if (!content) return {};
  HostNames hosts = names_in(*content, name, assignment(name, *path) + ": ");
  if (hosts.names.empty()) refuse(assignment(name, *path) + ": the file names no host");
  return hosts;
}

HostNames SchedulerVariables::names_in(const std::string& host_file, const char* name, const std::string& complaint) {
  const auto hosts = parse_host_file(host_file);
  if (!hosts) {
    refuse(complaint + hosts.error().message);
    return {};
  }
  std::vector<std::string> names;
  for (const HostEntry& host : hosts.value()) names.push_back(host.name);
  return named(std::move(names), name);
}

std::optional<int> SchedulerVariables::find_host(const HostNames& hosts, const std::string& name) {
  const auto only = [&](const auto& fits) -> std::optional<int> {
    const auto first = std::ranges::find_if(hosts.names, fits);
    if (first == hosts.names.end()) return std::nullopt;
    if (std::find_if(first + 1, hosts.names.end(), fits) != hosts.names.end()) return std::nullopt;
    return static_cast<int>(first - hosts.names.begin());
  };
  if (name.empty()) return std::nullopt;
  if (const auto same = only([&](const std::string& host) { return host == name; })) return same;
  // Often one of the two names has its domain and the other has not. Two different domains are two hosts.
  return only([&](const std::string& host) {
    const bool domains = host.find('.') != std::string::npos && name.find('.') != std::string::npos;
    return !domains && short_name(host) == short_name(name);
  });
}

}  // namespace ddp::launcher

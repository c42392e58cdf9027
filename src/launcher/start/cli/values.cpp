#include "launcher/start/cli/values.h"

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdlib>

#include "base/duration.h"
#include "base/signals.h"
#include "base/text.h"

namespace ddp::launcher {

using base::Failure;
using base::Result;

namespace {

constexpr int kMaxNodes = 65'536;
constexpr double kMaxSeconds = 1e6;

std::optional<int> local_rank(const std::string& text) {
  const auto number = base::parse_integer(text, 0, limits::kWorkersPerNode - 1);
  if (!number) return std::nullopt;
  return static_cast<int>(*number);
}

std::optional<int> signal_of(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c); });
  if (!name.starts_with("SIG")) name = "SIG" + name;
  for (int signal = 1; signal < NSIG; ++signal) {
    if (base::signal_name(signal) == name) return signal;
  }
  return std::nullopt;
}

// Returns why a signal cannot end a job through ddplaunch, or null if it can.
const char* why_not_handled(int signal) {
  if (signal == SIGKILL || signal == SIGSTOP) return "cannot be caught";
  if (signal == SIGCHLD) return "arrives whenever a worker exits";
  const bool is_fault = signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL;
  return is_fault ? "indicates a fault of ddplaunch itself" : nullptr;
}

bool is_seconds(const std::string& value) {
  return parse_seconds(value).ok();
}
bool is_count(const std::string& value) {
  return base::parse_integer(value, 0, kMaxNodes).has_value();
}
bool is_yes_or_no(const std::string& value) {
  static const std::vector<std::string> kWords = {"0", "1", "false", "true", "False", "True", "no", "yes"};
  return std::ranges::find(kWords, value) != kWords.end();
}
bool is_tcp(const std::string& value) {
  return value == "tcp";
}

struct RendezvousKey {
  const char* name;
  bool (*is_right)(const std::string& value);
  const char* wanted;
  bool for_several_nodes;
};

constexpr const char* kSeconds = "a time such as 30, 90s or 10m";
constexpr RendezvousKey kRendezvousKeys[] = {
    {"timeout", is_seconds, kSeconds, true},
    {"join_timeout", is_seconds, kSeconds, true},
    {"last_call_timeout", is_seconds, kSeconds, true},
    {"close_timeout", is_seconds, kSeconds, true},
    {"heartbeat_timeout", is_seconds, kSeconds, true},
    {"read_timeout", is_seconds, kSeconds, true},
    {"keep_alive_interval", is_seconds, kSeconds, true},
    {"keep_alive_max_attempt", is_count, "a number from 0", true},
    {"is_host", is_yes_or_no, "true or false", false},
    {"store_type", is_tcp, "tcp, the only supported store", false},
    {"rank", is_count, "a number from 0", false},
};

const RendezvousKey* find_rendezvous_key(const std::string& name) {
  const auto* found = std::find_if(std::begin(kRendezvousKeys), std::end(kRendezvousKeys),
                                   [&](const RendezvousKey& key) { return name == key.name; });
  return found == std::end(kRendezvousKeys) ? nullptr : found;
}

// Removes quotes that no shell has removed, for instance in a YAML file.
std::string unquoted(const std::string& text) {
  const std::string word = base::trimmed(text, " ");
  const bool is_quoted =
      word.size() > 1 && (word.front() == '"' || word.front() == '\'') && word.back() == word.front();
  return is_quoted ? word.substr(1, word.size() - 2) : word;
}

}  // namespace

Result<WorkerCount> parse_workers(const std::string& text) {
  if (text == "auto") return WorkerCount(WorkerCount::By::gpus_or_cpus);
  if (text == "gpu") return WorkerCount(WorkerCount::By::gpus);
  if (text == "cpu") return WorkerCount(WorkerCount::By::cpus);
  if (const auto number = base::parse_integer(text, 1, limits::kWorkersPerNode)) {
    return WorkerCount(static_cast<int>(*number));
  }
  return Failure{" is not a number from 1 to " + std::to_string(limits::kWorkersPerNode) + ", auto, gpu or cpu."};
}

Result<std::vector<HostEntry>> parse_host_words(const std::string& text) {
  auto hosts = parse_hosts(text);
  if (!hosts) return Failure{": " + hosts.error().message};
  if (hosts.value().empty()) return Failure{" names no host. Write hosts as in a,b:4."};
  return hosts;
}

Result<std::string> parse_program(const std::string& text) {
  if (text.find_first_not_of(' ') != std::string::npos) return text;
  return Failure{" is empty. Name a program, as in ssh -p 2222."};
}

Result<std::vector<std::string>> parse_forwarded(const std::string& text) {
  std::vector<std::string> names = base::split(text, ',');
  for (const std::string& name : names) {
    const std::size_t end = std::min(name.find('='), name.size());
    if (end == 0) return Failure{" has an empty name. Use NAME, NAME* or NAME=value, separated by one comma each."};
    const std::size_t star = name.substr(0, end).find('*');
    if (star != std::string::npos && star + 1 != name.size()) {
      return Failure{": a * is allowed only at the end of a name."};
    }
  }
  return names;
}

Result<std::string> parse_run_id(const std::string& text) {
  if (text.empty()) return Failure{" is empty. Name the run, or leave the option out for a random name."};
  // The ID becomes part of a folder's name.
  if (text.find('/') != std::string::npos) return Failure{" has a slash. Use a name without one."};
  return text;
}

Result<RdzvBackend> parse_rendezvous_backend(const std::string& text) {
  if (text.starts_with("etcd")) return Failure{" needs an etcd server, which ddplaunch does not use. Use c10d."};
  if (text == "static") return RdzvBackend::static_;
  if (text == "c10d") return RdzvBackend::c10d;
  return Failure{" is not a known rendezvous backend. Use static or c10d."};
}

Result<std::pair<int, int>> parse_nodes(const std::string& text) {
  const std::size_t colon = text.find(':');
  const auto minimum = base::parse_integer(text.substr(0, colon), 1, kMaxNodes);
  const auto maximum = colon == std::string::npos ? minimum : base::parse_integer(text.substr(colon + 1), 1, kMaxNodes);
  if (!minimum || !maximum || *minimum > *maximum) {
    return Failure{
        " is not a number of nodes. Use N or MIN:MAX with 0 < MIN <= MAX, as in --nnodes=2 or --nnodes=1:4."};
  }
  return std::pair(static_cast<int>(*minimum), static_cast<int>(*maximum));
}

Result<StreamSelection> parse_streams(const std::string& text) {
  const Failure wrong{
      " is not a choice of streams. Use 0 (none), 1 (stdout), 2 (stderr), 3 (both), or one of these by local rank, as "
      "in 0:1,12:3."};
  StreamSelection selection;
  if (text.find(':') == std::string::npos) {
    const auto all = base::parse_integer(text, 0, 3);
    if (!all) return wrong;
    selection.all = static_cast<int>(*all);
    return selection;
  }
  for (const std::string& entry : base::split(text, ',')) {
    const std::size_t colon = entry.find(':');
    if (colon == std::string::npos) return wrong;
    const auto rank = local_rank(entry.substr(0, colon));
    const auto streams = base::parse_integer(entry.substr(colon + 1), 0, 3);
    if (!rank || !streams) return wrong;
    if (!selection.by_local_rank.emplace(*rank, static_cast<int>(*streams)).second) {
      return Failure{" names local rank " + std::to_string(*rank) + " twice. Name each rank once, as in 0:1,12:3."};
    }
  }
  return selection;
}

Result<std::vector<int>> parse_local_ranks(const std::string& text) {
  std::vector<int> ranks;
  if (text.empty()) return ranks;
  for (const std::string& part : base::split(text, ',')) {
    const auto rank = local_rank(part);
    if (!rank) return Failure{" is not a list of local ranks. Use numbers from 0, separated by commas, as in 0,1."};
    ranks.push_back(*rank);
  }
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

Result<std::vector<std::string>> parse_filters(const std::string& text) {
  std::vector<std::string> filters;
  if (text.empty()) return filters;
  filters.emplace_back();
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool comma = text[i] == ',';
    const bool doubled = comma && i + 1 < text.size() && text[i + 1] == ',';
    if (comma && !doubled) {
      filters.emplace_back();
      continue;
    }
    filters.back() += text[i];
    if (doubled) ++i;
  }
  if (std::ranges::find(filters, "") != filters.end()) {
    return Failure{
        " has an empty text, which every line contains. Separate texts by one comma; ,, is a comma in a text."};
  }
  return filters;
}

Result<std::vector<int>> parse_signals(const std::string& text) {
  std::vector<int> signals;
  for (const std::string& name : base::split(text, ',')) {
    const auto signal = signal_of(name);
    if (!signal) {
      return Failure{": " + (name.empty() ? "an empty name" : name) +
                     " is not a signal. Use names separated by commas, as in SIGTERM,SIGINT."};
    }
    if (const char* why = why_not_handled(*signal)) {
      return Failure{": " + base::signal_name(*signal) + " " + why + ". Leave it out."};
    }
    if (std::ranges::find(signals, *signal) == signals.end()) signals.push_back(*signal);
  }
  return signals;
}

Result<std::map<std::string, std::string>> parse_rendezvous_settings(const std::string& text, UnknownKeys unknown) {
  std::map<std::string, std::string> settings;
  if (text.empty()) return settings;
  for (const std::string& entry : base::split(unquoted(text), ',')) {
    const std::size_t equals = entry.find('=');
    const std::string name = unquoted(entry.substr(0, equals));
    if (equals == std::string::npos || name.empty()) {
      return Failure{" is not a list of settings. Use KEY=VALUE,KEY=VALUE, as in timeout=60,is_host=true."};
    }
    const std::string value = unquoted(entry.substr(equals + 1));
    const RendezvousKey* key = find_rendezvous_key(name);
    if (key == nullptr && unknown == UnknownKeys::kept) {
      settings[name] = value;
      continue;
    }
    if (key == nullptr) {
      std::vector<std::string> known;
      for (const RendezvousKey& each : kRendezvousKeys) known.emplace_back(each.name);
      const auto nearest = base::nearest_match(name, known);
      return Failure{": unknown key " + name + "." +
                     (nearest ? " Did you mean " + *nearest + "?" : " Known keys: " + base::join(known, ", ") + ".")};
    }
    if (!key->is_right(value)) return Failure{": " + name + " is not " + key->wanted + "."};
    settings[name] = value;
  }
  return settings;
}

bool is_known_rendezvous_key(const std::string& name) {
  return find_rendezvous_key(name) != nullptr;
}

bool is_for_several_nodes(const std::string& rendezvous_key) {
  const RendezvousKey* key = find_rendezvous_key(rendezvous_key);
  return key != nullptr && key->for_several_nodes;
}

Result<std::string> parse_preload(const std::string& text) {
  if (text == "off") return std::string();
  const auto is_name = [](const std::string& name) {
    const auto is_letter = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '.'; };
    return !name.empty() && std::ranges::all_of(name, is_letter);
  };
  if (!std::ranges::all_of(base::split(text, ','), is_name)) {
    return Failure{" is no list of Python modules. Use --preload=torch, --preload=torch,lightning, auto or off."};
  }
  return text;
}

Result<std::string> parse_endpoint(const std::string& text) {
  if (text.empty()) return text;
  if (const auto endpoint = parse_host_and_port(text); !endpoint) return endpoint.error();
  return text;
}

Result<HostAndPort> parse_host_and_port(const std::string& text) {
  const Failure wrong{" is not an endpoint. Use HOST, HOST:PORT or [ADDRESS]:PORT, as in node0:29400 or [::1]:29400."};
  std::string host = text;
  std::string port;
  bool has_port = false;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string::npos) return wrong;
    host = text.substr(1, end - 1);
    const std::string rest = text.substr(end + 1);
    if (!rest.empty() && rest.front() != ':') return wrong;
    has_port = !rest.empty();
    if (has_port) port = rest.substr(1);
  } else if (const std::size_t colon = text.find(':'); colon != std::string::npos && colon == text.rfind(':')) {
    // Text with several colons and without brackets is an IPv6 address without a port.
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
    has_port = true;
  }
  if (host.empty() || host.find_first_of(" /[]") != std::string::npos) return wrong;
  if (!has_port) return HostAndPort{host, std::nullopt};
  const auto number = base::parse_integer(port, 0, 65'535);
  if (!number) return wrong;
  return HostAndPort{host, static_cast<std::uint16_t>(*number)};
}

Result<std::string> parse_tag(const std::string& text) {
  static const std::vector<std::string> kFields = {"rank", "local_rank", "node", "role", "time"};
  for (std::size_t at = text.find("${"); at != std::string::npos; at = text.find("${", at + 2)) {
    const std::size_t end = text.find('}', at);
    if (end == std::string::npos) return Failure{" has a ${ without a closing }. Write fields as in ${rank}."};
    const std::string field = text.substr(at + 2, end - at - 2);
    if (std::ranges::find(kFields, field) == kFields.end()) {
      return Failure{" has an unknown field ${" + field + "}. Known fields: ${" + base::join(kFields, "}, ${") + "}."};
    }
  }
  return text;
}

Result<std::chrono::milliseconds> parse_seconds(const std::string& text) {
  const auto time = base::parse_duration(text);
  if (!time || time->count() > kMaxSeconds) {
    return Failure{
        " is not a time from 0 to 1000000 seconds. Use a number of seconds such as 30 or 0.5, or units as in 500ms, "
        "90s, 10m or 1h30m."};
  }
  // The value is rounded up, because 0 has a special meaning, and a tenth of a millisecond is not 0.
  return std::chrono::ceil<std::chrono::milliseconds>(*time);
}

Result<std::chrono::milliseconds> parse_node_timeout(const std::string& text) {
  auto time = parse_seconds(text);
  if (!time || time.value() >= 3 * limits::kNodeHeartbeat) return time;
  return Failure{" is too short, because nodes send a heartbeat once per second. Use 3 or more."};
}

Result<double> parse_percent(const std::string& text) {
  std::string number = text;
  if (number.ends_with('%')) number.pop_back();
  char* end = nullptr;
  const double percent = std::strtod(number.c_str(), &end);
  // Other characters are those of other forms, such as "inf" and "0x1".
  const bool is_plain = !number.empty() && number.find_first_not_of("0123456789.") == std::string::npos;
  if (is_plain && *end == '\0' && percent <= 100) return percent / 100;
  return Failure{" is not a percentage from 0 to 100. Use a number such as 1%, 0.5% or 1."};
}

}  // namespace ddp::launcher

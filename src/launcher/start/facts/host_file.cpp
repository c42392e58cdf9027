#include "launcher/start/facts/host_file.h"

#include <arpa/inet.h>

#include <algorithm>
#include <span>
#include <unordered_map>

#include "base/text.h"
#include "launcher/start/facts/host_list.h"

namespace ddp::launcher {
namespace {

// This limit includes repeated names. A file with one line per processor of the largest known systems has a million
// lines.
constexpr std::size_t kNamesOfFile = std::size_t{1} << 22;

// Describes one part of a list.
struct Entry {
  std::vector<std::string> names;
  std::optional<int> workers;
};

base::Failure too_many(const std::string& what) {
  return {what + ". List only the hosts of the job."};
}

base::Result<int> parse_workers(std::string_view part, std::string_view text) {
  const auto workers = base::parse_integer(text, 1, kWorkersOfHost);
  if (workers) return static_cast<int>(*workers);
  return wrong_host(part, "has " + shown(text) + " as its number of workers. Use a number from 1 to " +
                              std::to_string(kWorkersOfHost) + ", as in b:4.");
}

// Accepts and ignores a user name and a zone, as in user@fe80::1%eth0.
bool is_ipv6_address(std::string_view name) {
  name = name.substr(name.find('@') + 1);
  const std::string address(name.substr(0, name.find('%')));
  in6_addr bytes{};
  return ::inet_pton(AF_INET6, address.c_str(), &bytes) == 1;
}

// Returns the hosts of a list and their number of workers. `rest` is empty, or a colon followed by that number.
base::Result<Entry> entry_of(std::string_view part, std::string_view list, std::string_view rest) {
  auto names = expand_host_list(list);
  if (!names) return names.error();
  Entry entry{std::move(names).value(), std::nullopt};
  if (rest.empty()) return entry;
  const auto workers = parse_workers(part, rest.substr(1));
  if (!workers) return workers.error();
  entry.workers = workers.value();
  return entry;
}

// Returns the hosts of a part and their number of workers, which follows `colon`. If `colon` is part.size(), there is
// no number.
base::Result<Entry> parse_counted(std::string_view part, std::size_t colon) {
  if (colon == 0) return wrong_host(part, "has no name before the colon. Write it as in b:4.");
  return entry_of(part, part.substr(0, colon), part.substr(colon));
}

// Parses "[::1]:4". `open` and `close` are the positions of the brackets.
base::Result<Entry> parse_bracketed_address(std::string_view part, std::size_t open, std::size_t close) {
  const std::string name = std::string(part.substr(0, open)) + std::string(part.substr(open + 1, close - open - 1));
  const std::string_view rest = part.substr(close + 1);
  const bool fits = open == 0 || part[open - 1] == '@';
  if (!fits || !is_ipv6_address(name) || (!rest.empty() && rest.front() != ':')) {
    return wrong_host(part, "is not an IPv6 address in brackets. Write it as in [::1] or [::1]:4.");
  }
  return entry_of(part, name, rest);
}

// A bracket begins either an IPv6 address or the numbers of a host list. An address has at least two colons; numbers
// and ranges have none.
base::Result<Entry> parse_part(std::string_view part) {
  const std::size_t open = part.find('[');
  const std::size_t close = part.find(']', std::min(open, part.size()));
  if (close != std::string_view::npos && std::ranges::count(part.substr(open, close - open), ':') > 1) {
    return parse_bracketed_address(part, open, close);
  }
  const std::size_t last_bracket = part.rfind(']');
  const std::size_t begin = last_bracket == std::string_view::npos ? 0 : last_bracket;
  const auto colons = std::ranges::count(part.substr(begin), ':');
  if (colons == 1) return parse_counted(part, part.find(':', begin));
  auto entry = parse_counted(part, part.size());
  if (!entry || colons == 0) return entry;
  // A part with several colons is an address. Its last group cannot be distinguished from a number of workers.
  if (std::ranges::all_of(entry.value().names, is_ipv6_address)) return entry;
  return wrong_host(part,
                    "is not an IPv6 address and has too many colons for a name. Write it as in b:4, ::1 or [::1]:4.");
}

// Merges the mentions of each host.
class HostTally {
 public:
  // Returns a failure if the entry cannot be added.
  std::optional<base::Failure> add(const Entry& entry) {
    names_ += entry.names.size();
    if (names_ > kNamesOfFile) return too_many("hosts are named more than " + std::to_string(kNamesOfFile) + " times");
    for (const std::string& name : entry.names) {
      const auto [place, first] = index_.try_emplace(name, hosts_.size());
      if (first) hosts_.push_back({{name, entry.workers}, 0});
      if (hosts_.size() > kHosts) return too_many("there are more than " + std::to_string(kHosts) + " hosts");
      if (auto failure = count(hosts_[place->second], entry.workers, first)) return failure;
    }
    return std::nullopt;
  }

  std::vector<HostEntry> take() && {
    std::vector<HostEntry> hosts;
    for (Mentioned& mentioned : hosts_) {
      if (a_line_a_slot_ && !mentioned.host.workers) mentioned.host.workers = mentioned.times;
      hosts.push_back(std::move(mentioned.host));
    }
    return hosts;
  }

 private:
  struct Mentioned {
    HostEntry host;
    int times = 0;
  };

  std::optional<base::Failure> count(Mentioned& mentioned, std::optional<int> workers, bool first) {
    HostEntry& host = mentioned.host;
    ++mentioned.times;
    if (first) return std::nullopt;
    if (host.workers.has_value() != workers.has_value()) {
      return wrong_host(host.name,
                        "has a number of workers in one place and none in another. Give it in both or none.");
    }
    if (!workers) a_line_a_slot_ = true;
    if (workers) *host.workers += *workers;
    if (host.workers.value_or(mentioned.times) <= kWorkersOfHost) return std::nullopt;
    return wrong_host(host.name,
                      "has more than " + std::to_string(kWorkersOfHost) + " workers altogether. Give it fewer.");
  }

  std::vector<Mentioned> hosts_;
  std::unordered_map<std::string, std::size_t> index_;
  std::size_t names_ = 0;
  bool a_line_a_slot_ = false;
};

// Returns the number of workers that the words after the host give, or std::nullopt if they give none.
base::Result<std::optional<int>> parse_slots(std::string_view host, std::span<const std::string> words) {
  std::optional<int> slots;
  for (const std::string& word : words) {
    if (word.starts_with("max_slots=") || word.starts_with("max-slots=")) continue;
    const bool bare = word.find_first_not_of("0123456789") == std::string::npos;
    if (!bare && !word.starts_with("slots=")) {
      return wrong_host(host,
                        "is followed by " + shown(word) + ". Write a line as in \"b slots=4\", or the host alone.");
    }
    const auto number = parse_workers(host, bare ? word : std::string_view(word).substr(word.find('=') + 1));
    if (!number) return number.error();
    if (slots) return wrong_host(host, "has two numbers of workers. Write one.");
    slots = number.value();
  }
  return slots;
}

// `slots` is the number of workers that the line gives for each of its hosts.
std::optional<base::Failure> add_list(std::string_view list, std::optional<int> slots, HostTally& tally) {
  const std::vector<std::string_view> parts = split_host_list(list);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].empty()) {
      return base::Failure{"host " + std::to_string(i + 1) + " of the list " + shown(list) +
                           " is empty. Separate hosts by one comma each."};
    }
    auto entry = parse_part(parts[i]);
    if (!entry) return entry.error();
    if (slots && entry.value().workers) return wrong_host(parts[i], "has two numbers of workers. Write one.");
    if (slots) entry.value().workers = slots;
    if (auto failure = tally.add(entry.value())) return failure;
  }
  return std::nullopt;
}

std::optional<base::Failure> add_line(std::string_view line, HostTally& tally) {
  const std::vector<std::string> words = base::words(line.substr(0, line.find('#')), " \t\r");
  if (words.empty()) return std::nullopt;
  const auto slots = parse_slots(words.front(), std::span(words).subspan(1));
  if (!slots) return slots.error();
  return add_list(words.front(), slots.value(), tally);
}

}  // namespace

base::Result<std::vector<HostEntry>> parse_hosts(std::string_view text) {
  HostTally tally;
  if (auto failure = add_list(text, std::nullopt, tally)) return *failure;
  return std::move(tally).take();
}

base::Result<std::vector<HostEntry>> parse_host_file(std::string_view content) {
  HostTally tally;
  for (std::size_t line = 1; !content.empty(); ++line) {
    if (auto failure = add_line(base::take_line(content), tally)) {
      return base::Failure{"line " + std::to_string(line) + ": " + failure->message};
    }
  }
  return std::move(tally).take();
}

}  // namespace ddp::launcher

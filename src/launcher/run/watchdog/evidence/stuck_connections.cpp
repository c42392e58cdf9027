#include "launcher/run/watchdog/evidence/stuck_connections.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "base/file.h"
#include "base/process_stat.h"
#include "base/text.h"
#include "base/unique_fd.h"

namespace ddp::launcher {
namespace {

namespace fs = std::filesystem;

// The kernel doubles the pause each time, from 0.2 s on, so this is some seconds.
constexpr int kSentAgain = 4;
constexpr std::string_view kEstablished = "01";

std::optional<std::uint64_t> hexadecimal(std::string_view text) {
  std::uint64_t number = 0;
  for (const char c : text) {
    const auto digit = std::string_view("0123456789ABCDEF").find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    number = number * 16 + digit;
  }
  return text.empty() || text.size() > 16 ? std::nullopt : std::optional(number);
}

// Reads "0100007F:1F90". The kernel prints each group of four bytes as a number of this machine.
std::optional<net::Endpoint> read_endpoint(std::string_view text, bool is_v6) {
  const std::size_t size = is_v6 ? 32 : 8;
  if (text.size() != size + 5 || text[size] != ':') return std::nullopt;
  sockaddr_storage address{};
  std::uint32_t groups[4] = {};
  for (std::size_t i = 0; i < size / 8; ++i) {
    const auto group = hexadecimal(text.substr(8 * i, 8));
    if (!group) return std::nullopt;
    groups[i] = static_cast<std::uint32_t>(*group);
  }
  const auto port = hexadecimal(text.substr(size + 1));
  if (!port) return std::nullopt;
  if (is_v6) {
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&address);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(static_cast<std::uint16_t>(*port));
    std::memcpy(&v6->sin6_addr, groups, 16);
  } else {
    auto* v4 = reinterpret_cast<sockaddr_in*>(&address);
    v4->sin_family = AF_INET;
    v4->sin_port = htons(static_cast<std::uint16_t>(*port));
    std::memcpy(&v4->sin_addr, groups, 4);
  }
  return net::to_endpoint(address);
}

// Returns the processes by their groups.
std::map<pid_t, std::vector<pid_t>> processes_by_group() {
  std::map<pid_t, std::vector<pid_t>> groups;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const auto pid = base::parse_integer(entry.path().filename().string(), 1, INT32_MAX);
    const auto stat = pid ? base::read_process_stat(static_cast<pid_t>(*pid)) : std::nullopt;
    if (stat) groups[stat->group].push_back(static_cast<pid_t>(*pid));
  }
  return groups;
}

// Returns the inodes of the sockets that a process has open.
std::set<std::uint64_t> sockets_of(pid_t pid) {
  constexpr std::string_view kPrefix = "socket:[";
  std::set<std::uint64_t> inodes;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc/" + std::to_string(pid) + "/fd", ignored)) {
    const std::string target = fs::read_symlink(entry.path(), ignored).string();
    if (!target.starts_with(kPrefix)) continue;
    const auto inode =
        base::parse_integer(target.substr(kPrefix.size(), target.size() - kPrefix.size() - 1), 0, INT64_MAX);
    if (inode) inodes.insert(static_cast<std::uint64_t>(*inode));
  }
  return inodes;
}

bool is_down(const std::string& interface) {
  ifreq request{};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  const base::UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return ::ioctl(socket.get(), SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & IFF_RUNNING) == 0;
}

// All stuck connections between two addresses.
struct Way {
  std::set<int> ranks;
  int connections = 0;
  std::uint64_t unacknowledged = 0;
  int sent_again = 0;
};

std::string line_of(const net::IpAddress& own, const net::IpAddress& other, const Way& way) {
  const std::string interface = net::interface_of(own);
  const std::string local =
      interface.empty() ? "" : " (" + interface + (is_down(interface) ? ", which is down" : "") + ")";
  const std::string connections = way.connections == 1 ? "" : " on " + base::counted(way.connections, "connection");
  return own.text() + local + " → " + other.text() + ": " + base::human_bytes(way.unacknowledged) + " of " +
         base::ranks_text({way.ranks.begin(), way.ranks.end()}) + connections +
         " are not acknowledged, although they were sent again " + base::counted(way.sent_again, "time");
}

}  // namespace

std::vector<TcpRow> read_tcp_rows(std::string_view text, bool is_v6) {
  constexpr std::size_t kFields = 10;
  std::vector<TcpRow> rows;
  base::take_line(text);  // the names of the columns
  while (!text.empty()) {
    const std::vector<std::string> fields = base::words(base::take_line(text));
    if (fields.size() < kFields || fields[3] != kEstablished) continue;
    const auto own = read_endpoint(fields[1], is_v6);
    const auto other = read_endpoint(fields[2], is_v6);
    const auto unsent = hexadecimal(fields[4].substr(0, fields[4].find(':')));
    const auto again = hexadecimal(fields[6]);
    const auto inode = base::parse_integer(fields[9], 0, INT64_MAX);
    if (!own || !other || !unsent || !again || !inode) continue;
    rows.push_back({*own, *other, *unsent, static_cast<int>(std::min<std::uint64_t>(*again, 1000)),
                    static_cast<std::uint64_t>(*inode)});
  }
  return rows;
}

EvidenceSource ask_connections(std::span<const std::pair<int, pid_t>> workers, net::Deadline deadline) {
  EvidenceSource source{"connections", {}, {}, {}};
  std::map<std::pair<net::IpAddress, net::IpAddress>, Way> ways;
  const auto groups = processes_by_group();
  for (const auto& [rank, worker] : workers) {
    const auto group = groups.find(worker);
    if (group == groups.end() || std::chrono::steady_clock::now() > deadline) continue;
    const std::string folder = "/proc/" + std::to_string(worker) + "/net/";
    std::vector<TcpRow> rows = read_tcp_rows(base::read_file(folder + "tcp"), false);
    const std::vector<TcpRow> v6 = read_tcp_rows(base::read_file(folder + "tcp6"), true);
    rows.insert(rows.end(), v6.begin(), v6.end());
    std::erase_if(rows, [](const TcpRow& row) { return row.sent_again < kSentAgain; });
    if (rows.empty()) continue;
    // Processes that a worker has forked have its sockets as well.
    std::set<std::uint64_t> sockets;
    for (const pid_t pid : group->second) sockets.merge(sockets_of(pid));
    for (const TcpRow& row : rows) {
      if (!sockets.contains(row.inode)) continue;
      Way& way = ways[{row.own.address, row.other.address}];
      way.ranks.insert(rank);
      ++way.connections;
      way.unacknowledged += row.unacknowledged;
      way.sent_again = std::max(way.sent_again, row.sent_again);
    }
  }
  for (const auto& [addresses, way] : ways) {
    source.essence.push_back(line_of(addresses.first, addresses.second, way));
    source.text += source.essence.back() + "\n";
  }
  return source;
}

}  // namespace ddp::launcher

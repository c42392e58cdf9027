#include "net/peer_owner.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "base/uninterrupted.h"

namespace ddp::net {
namespace {

// Accepts one end of a connection that a process holds, even if either direction is shut down. A socket in TIME_WAIT,
// or one that its process has closed, has no inode, and the kernel reports root as its owner.
std::optional<PeerOwner> owner_in_state(int state, uid_t uid, std::uint64_t inode) {
  constexpr std::array<int, 6> kHeld = {TCP_ESTABLISHED, TCP_FIN_WAIT1, TCP_FIN_WAIT2,
                                        TCP_CLOSE_WAIT,  TCP_LAST_ACK,  TCP_CLOSING};
  if (std::ranges::find(kHeld, state) == kHeld.end() || inode == 0) return std::nullopt;
  return PeerOwner{uid, inode};
}

struct Request {
  nlmsghdr header;
  inet_diag_req_v2 body;
};

struct Answer {
  nlmsghdr header;
  union {
    inet_diag_msg body;
    char room[512];  // leaves space for the attributes
  };
};

// Returns text such as "0100007F:0016", as in the tables of /proc/net: 32-bit words in host byte order.
std::string table_form(const Endpoint& endpoint, bool v6) {
  std::array<std::uint8_t, 16> bytes = endpoint.address.bytes;
  if (v6 && !endpoint.address.is_v6) {
    bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, bytes[0], bytes[1], bytes[2], bytes[3]};
  }
  std::string text;
  char part[16];
  for (std::size_t i = 0; i < (v6 ? 16U : 4U); i += 4) {
    std::uint32_t word = 0;
    std::memcpy(&word, bytes.data() + i, sizeof word);
    std::snprintf(part, sizeof part, "%08X", word);
    text += part;
  }
  std::snprintf(part, sizeof part, ":%04X", endpoint.port);
  return text + part;
}

struct ConnectionToOurselves {
  base::UniqueFd listener;  // never accepts; the kernel connects nevertheless
  base::UniqueFd client;
};

// Returns std::nullopt if this node has no loopback interface, or filters it.
std::optional<ConnectionToOurselves> connect_to_ourselves() {
  constexpr std::chrono::milliseconds kPatience{100};
  base::UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  base::UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* name = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof address;
  if (::bind(listener.get(), name, length) != 0 || ::listen(listener.get(), 1) != 0 ||
      ::getsockname(listener.get(), name, &length) != 0) {
    return std::nullopt;
  }
  if (::connect(client.get(), name, length) == 0) return ConnectionToOurselves{std::move(listener), std::move(client)};
  const bool is_under_way = errno == EINPROGRESS;
  int error = 0;
  socklen_t size = sizeof error;
  if (!is_under_way || base::poll_until(client.get(), POLLOUT, std::chrono::steady_clock::now() + kPatience) <= 0 ||
      ::getsockopt(client.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
    return std::nullopt;
  }
  return ConnectionToOurselves{std::move(listener), std::move(client)};
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (true) {
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    if (line.empty()) return words;
    words.push_back(line.substr(0, line.find_first_of(" \t")));
    line.remove_prefix(words.back().size());
  }
}

}  // namespace

std::optional<PeerOwner> find_in_socket_table(std::string_view table, const Endpoint& half,
                                              const Endpoint& other_half) {
  const bool v6 = half.address.is_v6 || other_half.address.is_v6;
  const std::string names[] = {table_form(half, false) + " " + table_form(other_half, false) + " ",
                               table_form(half, true) + " " + table_form(other_half, true) + " "};
  // A line has these columns: slot, own end, other end, state, queues, timer, retransmissions, uid, time-out, inode.
  constexpr std::size_t kState = 3, kUid = 7, kInode = 9;
  for (const std::string& name : std::span(names).subspan(v6 ? 1 : 0)) {
    const std::size_t at = table.find(name);
    if (at == std::string_view::npos) continue;
    const std::size_t start = table.rfind('\n', at) + 1;
    const auto words = words_of(table.substr(start, table.find('\n', at) - start));
    if (words.size() <= kInode) return std::nullopt;
    const auto state = base::parse_hex(words[kState]);
    const auto uid = base::parse_integer(words[kUid], 0, std::numeric_limits<uid_t>::max());
    const auto inode = base::parse_integer(words[kInode], 0, INT64_MAX);
    if (!state || !uid || !inode) return std::nullopt;
    return owner_in_state(static_cast<int>(*state), static_cast<uid_t>(*uid), static_cast<std::uint64_t>(*inode));
  }
  return std::nullopt;
}

std::optional<uid_t> uid_of_unknown_users(std::string_view uid_map, std::string_view overflow_uid) {
  // The map has one line "inside outside count" per range. The first namespace has one range with all uids.
  std::uint64_t known = 0;
  for (const std::string& line : base::split(uid_map, '\n')) {
    const auto words = words_of(line);
    if (words.size() == 3) known += static_cast<std::uint64_t>(base::parse_integer(words[2], 0, INT64_MAX).value_or(0));
  }
  if (known >= std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  constexpr uid_t kUsual = 65'534;
  const auto number =
      base::parse_integer(overflow_uid.substr(0, overflow_uid.find('\n')), 0, std::numeric_limits<uid_t>::max());
  return number ? static_cast<uid_t>(*number) : kUsual;
}

std::optional<uid_t> uid_of_unknown_users() {
  const std::string map = base::read_file("/proc/self/uid_map");
  // A kernel without user namespaces has no such file, and all users are known.
  if (map.empty()) return std::nullopt;
  return uid_of_unknown_users(map, base::read_file("/proc/sys/kernel/overflowuid"));
}

PeerLookup::PeerLookup(Source best, std::string table_folder) : source_(best), table_folder_(std::move(table_folder)) {
  // Without a loopback interface the sources cannot be tested, and no peer can connect over it.
  const auto connection = connect_to_ourselves();
  if (source_ == Source::diagnostics) {
    netlink_.reset(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
    if (netlink_ && (!connection || knows_owner_of(connection->client.get()))) return;
    netlink_.reset();
    source_ = Source::tables;
  }
  if (source_ == Source::tables && (!connection || !knows_owner_of(connection->client.get()))) source_ = Source::none;
}

bool PeerLookup::knows_owner_of(int fd) {
  struct stat status {};
  const auto half = own_endpoint(fd);
  const auto other_half = peer_endpoint(fd);
  if (!half || !other_half || ::fstat(fd, &status) != 0) return false;
  return find(*half, *other_half) == PeerOwner{status.st_uid, status.st_ino};
}

std::optional<PeerOwner> PeerLookup::owner_of_peer(int fd) {
  const auto half = peer_endpoint(fd);
  const auto other_half = own_endpoint(fd);
  if (!half || !other_half) return std::nullopt;
  return find(*half, *other_half);
}

std::optional<PeerOwner> PeerLookup::find(const Endpoint& half, const Endpoint& other_half) {
  if (source_ == Source::none) return std::nullopt;
  if (source_ == Source::diagnostics) return ask_kernel(half, other_half);
  // An IPv6 socket may hold an IPv4 connection, which is then in the IPv6 table.
  for (const char* name : {"/tcp", "/tcp6"}) {
    if (auto owner = find_in_socket_table(base::read_file(table_folder_ + name), half, other_half)) return owner;
  }
  return std::nullopt;
}

std::optional<PeerOwner> PeerLookup::ask_kernel(const Endpoint& half, const Endpoint& other_half) {
  Request request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST;  // no dump flag, so that the kernel looks up one socket in its hash table
  request.header.nlmsg_seq = ++sequence_;
  request.body.sdiag_family = half.address.is_v6 ? AF_INET6 : AF_INET;
  request.body.sdiag_protocol = IPPROTO_TCP;
  inet_diag_sockid& id = request.body.id;
  id.idiag_sport = htons(half.port);
  id.idiag_dport = htons(other_half.port);
  std::memcpy(id.idiag_src, half.address.bytes.data(), sizeof id.idiag_src);
  std::memcpy(id.idiag_dst, other_half.address.bytes.data(), sizeof id.idiag_dst);
  id.idiag_if = half.address.interface;
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;

  // The answer is available when send() returns.
  if (::send(netlink_.get(), &request, sizeof request, MSG_DONTWAIT) != sizeof request) return std::nullopt;
  Answer answer{};
  while (true) {
    const ssize_t got = ::recv(netlink_.get(), &answer, sizeof answer, MSG_DONTWAIT);
    if (got < static_cast<ssize_t>(sizeof(nlmsghdr))) return std::nullopt;
    if (answer.header.nlmsg_seq != sequence_) continue;  // an answer to an abandoned request
    const bool whole = got >= static_cast<ssize_t>(NLMSG_LENGTH(sizeof(inet_diag_msg)));
    if (answer.header.nlmsg_type != SOCK_DIAG_BY_FAMILY || !whole) return std::nullopt;
    break;
  }
  // If there is no such connection, the kernel returns the socket that listens on the peer's port.
  if (answer.body.id.idiag_sport != id.idiag_sport || answer.body.id.idiag_dport != id.idiag_dport) return std::nullopt;
  return owner_in_state(answer.body.idiag_state, answer.body.idiag_uid, answer.body.idiag_inode);
}

}  // namespace ddp::net

#include "net/tcp_bytes.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "base/unique_fd.h"

namespace ddp::net {
namespace {

struct Request {
  nlmsghdr header;
  inet_diag_req_v2 body;
};

// The kernel may know fewer fields of the structure than the headers, and fills only those.
template <typename Value>
Value value_at(std::span<const std::byte> bytes, std::size_t offset) {
  Value value{};
  if (offset + sizeof value <= bytes.size()) std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

TcpBytes connection_of(std::span<const std::byte> message) {
  const auto head = value_at<inet_diag_msg>(message, 0);
  TcpBytes connection{head.idiag_inode, ntohs(head.id.idiag_sport), ntohs(head.id.idiag_dport), 0};
  for (std::size_t at = NLMSG_ALIGN(sizeof head); at + sizeof(rtattr) <= message.size();) {
    const auto attribute = value_at<rtattr>(message, at);
    if (attribute.rta_len < sizeof attribute || at + attribute.rta_len > message.size()) break;
    if (attribute.rta_type == INET_DIAG_INFO) {
      const auto info = message.subspan(at + RTA_LENGTH(0), attribute.rta_len - RTA_LENGTH(0));
      connection.bytes = value_at<std::uint64_t>(info, offsetof(tcp_info, tcpi_bytes_acked)) +
                         value_at<std::uint64_t>(info, offsetof(tcp_info, tcpi_bytes_received));
    }
    at += RTA_ALIGN(attribute.rta_len);
  }
  return connection;
}

// Data can move in the states ESTABLISHED, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT, LAST_ACK and CLOSING. Their numbers are in
// <netinet/tcp.h>, which conflicts with <linux/tcp.h>.
constexpr std::uint32_t kConnected = 1U << 1 | 1U << 4 | 1U << 5 | 1U << 8 | 1U << 9 | 1U << 11;

bool ask(int socket, std::uint8_t family) {
  Request request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.body.sdiag_family = family;
  request.body.sdiag_protocol = IPPROTO_TCP;
  request.body.idiag_ext = 1U << (INET_DIAG_INFO - 1);
  request.body.idiag_states = kConnected;
  return ::send(socket, &request, sizeof request, MSG_DONTWAIT) == sizeof request;
}

}  // namespace

std::optional<bool> add_tcp_bytes(std::span<const std::byte> answer, std::vector<TcpBytes>& connections) {
  while (!answer.empty()) {
    const auto header = value_at<nlmsghdr>(answer, 0);
    if (header.nlmsg_len < sizeof header || header.nlmsg_len > answer.size()) return std::nullopt;
    if (header.nlmsg_type == NLMSG_DONE) return false;
    if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY) return std::nullopt;
    const auto message = answer.subspan(NLMSG_HDRLEN, header.nlmsg_len - NLMSG_HDRLEN);
    if (message.size() < sizeof(inet_diag_msg)) return std::nullopt;
    const TcpBytes connection = connection_of(message);
    if (connection.inode != 0) connections.push_back(connection);
    answer = answer.subspan(std::min<std::size_t>(NLMSG_ALIGN(header.nlmsg_len), answer.size()));
  }
  return true;
}

std::optional<std::vector<TcpBytes>> read_tcp_bytes() {
  const base::UniqueFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!socket) return std::nullopt;
  std::vector<TcpBytes> connections;
  std::array<std::byte, 32 << 10> room;
  for (const std::uint8_t family : {AF_INET, AF_INET6}) {
    if (!ask(socket.get(), family)) return std::nullopt;
    // The kernel answers each recv with the next part of the list. The first part is available when send returns.
    std::optional<bool> more = true;
    while (more.value_or(false)) {
      const ssize_t got = ::recv(socket.get(), room.data(), room.size(), MSG_DONTWAIT);
      if (got <= 0) return std::nullopt;
      more = add_tcp_bytes({room.data(), static_cast<std::size_t>(got)}, connections);
    }
    if (!more) return std::nullopt;
  }
  return connections;
}

}  // namespace ddp::net

#include "net/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/uninterrupted.h"
#include "net/address.h"

namespace ddp::net {
namespace {

using base::UniqueFd;
using Kind = SocketFailure::Kind;

SocketFailure system_failure(int error) {
  return {error == ECONNREFUSED ? Kind::refused : Kind::failed, std::strerror(error)};
}

// Waits until `fd` is ready for `events`.
base::Result<Done, SocketFailure> wait_ready(int fd, short events, Deadline deadline) {
  const int ready = base::poll_until(fd, events, deadline);
  if (ready > 0) return Done{};
  return ready < 0 ? system_failure(errno) : SocketFailure{Kind::timed_out, "no answer in time"};
}

base::Result<UniqueFd, SocketFailure> connect_one(const addrinfo& address, Deadline deadline, int segment) {
  UniqueFd fd(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return system_failure(errno);
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (segment > 0) ::setsockopt(fd.get(), IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof segment);
  if (::connect(fd.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return system_failure(errno);
    if (auto ready = wait_ready(fd.get(), POLLOUT, deadline); !ready) return ready.error();
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) return system_failure(error);
  }
  return fd;
}

std::atomic<int> usual_segment = 0;  // 0 if the kernel chooses

constexpr int kTcpRtoMaxMs = 44;     // TCP_RTO_MAX_MS, which is newer than many C libraries
constexpr int kRetransmitMs = 1000;  // the least that the kernel accepts

}  // namespace

void limit_segments(int bytes) {
  usual_segment = bytes;
}

void limit_retransmission_pause(int fd) {
  ::setsockopt(fd, IPPROTO_TCP, kTcpRtoMaxMs, &kRetransmitMs, sizeof kRetransmitMs);
}

base::Result<UniqueFd, SocketFailure> connect_tcp(const std::string& host, std::uint16_t port, Deadline deadline,
                                                  std::optional<int> segment) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) return SocketFailure{Kind::failed, std::string("name not resolved: ") + ::gai_strerror(error)};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);

  SocketFailure last{Kind::failed, "no address"};
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    // An address that drops packets must leave time for the next one.
    const Deadline soon = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    auto fd = connect_one(*address, address->ai_next == nullptr ? deadline : std::min(deadline, soon),
                          segment.value_or(usual_segment));
    if (fd) return fd;
    last = fd.error();
  }
  return last;
}

base::Result<Done, SocketFailure> send_all(int fd, std::span<const char> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (auto ready = wait_ready(fd, POLLOUT, deadline); !ready) return ready;
    } else if (errno == EPIPE || errno == ECONNRESET) {
      return SocketFailure{Kind::closed, "the other side closed the connection"};
    } else if (errno != EINTR) {
      return system_failure(errno);
    }
  }
  return Done{};
}

base::Result<std::size_t, SocketFailure> receive_some(int fd, std::span<char> bytes, Deadline deadline) {
  while (true) {
    const ssize_t received = ::recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (received > 0) return static_cast<std::size_t>(received);
    if (received == 0 || errno == ECONNRESET) {
      return SocketFailure{Kind::closed, "the other side closed the connection"};
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (auto ready = wait_ready(fd, POLLIN, deadline); !ready) return ready.error();
    } else if (errno != EINTR) {
      return system_failure(errno);
    }
  }
}

base::Result<Done, SocketFailure> receive_all(int fd, std::span<char> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const auto received = receive_some(fd, bytes, deadline);
    if (!received) return received.error();
    bytes = bytes.subspan(received.value());
  }
  return Done{};
}

base::Result<base::UniqueFd> listen_tcp(const std::string& address, std::uint16_t port, int backlog) {
  const std::string what = "cannot listen on " + host_and_port(address, port) + ": ";
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) {
    return base::Failure{what + "not an IP address"};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  base::UniqueFd fd(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  const int off = 0;
  if (fd) ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (fd && found->ai_family == AF_INET6) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (!fd || ::bind(fd.get(), found->ai_addr, found->ai_addrlen) != 0 || ::listen(fd.get(), backlog) != 0) {
    return base::Failure{what + std::strerror(errno)};
  }
  return fd;
}

base::UniqueFd accept_tcp(int listener, std::chrono::milliseconds unread_time) {
  base::UniqueFd socket;
  do {
    socket.reset(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  } while (!socket && (errno == EINTR || errno == ECONNABORTED));
  if (!socket) return socket;
  const int on = 1;
  const auto patience = static_cast<unsigned>(unread_time.count());
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(socket.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &patience, sizeof patience);
  limit_retransmission_pause(socket.get());
  return socket;
}

}  // namespace ddp::net

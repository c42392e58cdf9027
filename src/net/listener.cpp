#include "net/listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "net/address.h"
#include "net/socket.h"

namespace ddp::net {

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

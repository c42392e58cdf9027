#include "net/listener.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

namespace ddp::net {
namespace {

// sockaddr_storage is a box for the other kinds; the kernel says which one is in it.
template <typename Kind>
Kind as(const sockaddr_storage& address) {
  Kind kind{};
  std::memcpy(&kind, &address, sizeof kind);
  return kind;
}

}  // namespace

base::Result<base::UniqueFd> listen_tcp(const std::string& address, std::uint16_t port, int backlog) {
  const std::string what = "cannot listen on " + address + ":" + std::to_string(port) + ": ";
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

std::string address_text(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const std::string port = ":" + std::to_string(port_of(address));
  if (address.ss_family == AF_INET) {
    const auto ip = as<sockaddr_in>(address).sin_addr;
    return ::inet_ntop(AF_INET, &ip, text.data(), text.size()) + port;
  }
  if (address.ss_family != AF_INET6) return "an unnamed socket";
  const auto ip = as<sockaddr_in6>(address).sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&ip)) return ::inet_ntop(AF_INET, &ip.s6_addr[12], text.data(), text.size()) + port;
  return "[" + std::string(::inet_ntop(AF_INET6, &ip, text.data(), text.size())) + "]" + port;
}

std::uint16_t port_of(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) return ntohs(as<sockaddr_in>(address).sin_port);
  if (address.ss_family == AF_INET6) return ntohs(as<sockaddr_in6>(address).sin6_port);
  return 0;
}

sockaddr_storage local_address(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) address.ss_family = AF_UNSPEC;
  return address;
}

sockaddr_storage peer_address(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) address.ss_family = AF_UNSPEC;
  return address;
}

}  // namespace ddp::net

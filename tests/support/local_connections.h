// Makes connections within this computer, in each version of IP.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <cstdint>
#include <cstring>

#include "base/unique_fd.h"
#include "net/peer_owner.h"
#include "support/catch.h"

namespace ddp::test {

// Listens on both versions of IP, and has the addresses under which it is reached.
struct Listener {
  base::UniqueFd fd{::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::uint16_t port = 0;

  Listener() {
    sockaddr_in6 name{};
    name.sin6_family = AF_INET6;
    socklen_t length = sizeof name;
    const int off = 0;
    REQUIRE(::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0);
    REQUIRE(::bind(fd.get(), reinterpret_cast<sockaddr*>(&name), length) == 0);
    REQUIRE(::listen(fd.get(), 16) == 0);
    REQUIRE(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&name), &length) == 0);
    port = ntohs(name.sin6_port);
  }

  base::UniqueFd accept() const { return base::UniqueFd(::accept4(fd.get(), nullptr, nullptr, SOCK_CLOEXEC)); }
};

enum class Family { v4, v6, mapped };  // mapped: a socket of IPv6 that uses IPv4

inline base::UniqueFd connect_to(std::uint16_t port, Family family) {
  if (family == Family::v4) {
    base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(port);
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&name), sizeof name) != 0) return {};
    return fd;
  }
  base::UniqueFd fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 name{};
  name.sin6_family = AF_INET6;
  name.sin6_port = htons(port);
  name.sin6_addr = in6addr_loopback;
  const std::array<std::uint8_t, 16> mapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 127, 0, 0, 1};
  if (family == Family::mapped) std::memcpy(&name.sin6_addr, mapped.data(), mapped.size());
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&name), sizeof name) != 0) return {};
  return fd;
}

inline net::PeerOwner owner_of(const base::UniqueFd& fd) {
  struct stat status {};
  REQUIRE(::fstat(fd.get(), &status) == 0);
  return {status.st_uid, status.st_ino};
}

// Requires that the other side has closed its stream.
inline void hears_the_end(const base::UniqueFd& fd) {
  char byte = 0;
  REQUIRE(::recv(fd.get(), &byte, 1, 0) == 0);
}

}  // namespace ddp::test

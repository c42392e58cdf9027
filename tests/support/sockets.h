// Provides raw TCP for tests: a client that sends and receives bytes, and a listener on a port that the kernel chooses.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <string>
#include <string_view>

#include "base/unique_fd.h"
#include "net/socket.h"
#include "support/bytes.h"
#include "support/catch.h"
#include "support/deadline.h"

namespace ddp::test {

// Binds a socket to a port of the loopback interface. Until listen(), the port is taken and refuses connections.
class BoundSocket {
 public:
  BoundSocket() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    REQUIRE(::bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), length) == 0);
    REQUIRE(::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0);
    port_ = ntohs(address.sin_port);
  }

  std::uint16_t port() const { return port_; }
  int fd() const { return fd_.get(); }
  BoundSocket& listen() {
    REQUIRE(::listen(fd_.get(), 16) == 0);
    return *this;
  }
  base::UniqueFd accept() { return base::UniqueFd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC)); }

 private:
  base::UniqueFd fd_;
  std::uint16_t port_ = 0;
};

class RawPeer {
 public:
  explicit RawPeer(base::UniqueFd fd) : fd_(std::move(fd)) { REQUIRE(fd_); }
  explicit RawPeer(std::uint16_t port) {
    auto connected = net::connect_tcp("127.0.0.1", port, soon());
    REQUIRE(connected);
    fd_ = std::move(connected).value();
  }

  RawPeer& says(std::string_view bytes) {
    REQUIRE(net::send_all(fd_.get(), bytes, soon()));
    return *this;
  }
  // Sends what it can; the other side may close the connection before all is sent.
  void tries_to_say(std::string_view bytes) { (void)net::send_all(fd_.get(), bytes, soon()).ok(); }
  RawPeer& hears(std::string_view bytes) {
    std::string heard(bytes.size(), '\0');
    REQUIRE(net::receive_all(fd_.get(), heard, soon()));
    CHECK(to_hex(heard) == to_hex(bytes));
    return *this;
  }
  std::string hears_bytes(std::size_t count) {
    std::string heard(count, '\0');
    REQUIRE(net::receive_all(fd_.get(), heard, soon()));
    return heard;
  }
  // Receives a `bytes` of the store's protocol.
  std::string hears_text() {
    std::uint64_t length = 0;
    std::memcpy(&length, hears_bytes(sizeof length).data(), sizeof length);
    return hears_bytes(length);
  }
  void is_disconnected() {
    char byte = 0;
    const auto got = net::receive_all(fd_.get(), {&byte, 1}, soon());
    REQUIRE_FALSE(got);
    CHECK(got.error().kind == net::SocketFailure::Kind::closed);
  }
  void vanishes() { fd_.reset(); }
  int fd() const { return fd_.get(); }

 private:
  base::UniqueFd fd_;
};

}  // namespace ddp::test

#include "net/listener.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>

#include "net/address.h"
#include "support/catch.h"
#include "support/sockets.h"

using namespace ddp;
using namespace ddp::test;

namespace {

// Waits, because the client may have connected before the server's end can be accepted.
void wait_readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  REQUIRE(::poll(&entry, 1, 30'000) == 1);
}

}  // namespace

TEST_CASE("a listener takes a free port and both ends know their addresses") {
  const auto listener = net::listen_tcp("127.0.0.1", 0, 1);
  REQUIRE(listener);
  const std::uint16_t port = net::own_endpoint(listener.value().get())->port;
  REQUIRE(port != 0);
  const RawPeer peer(port);
  CHECK(net::peer_endpoint(peer.fd())->text() == "127.0.0.1:" + std::to_string(port));
}

TEST_CASE("a listener on all addresses hears IPv4 and names it as such") {
  const auto listener = net::listen_tcp("::", 0, 1);
  if (!listener) return;  // there is no IPv6 here
  const RawPeer peer(net::own_endpoint(listener.value().get())->port);
  wait_readable(listener.value().get());
  const base::UniqueFd accepted(::accept(listener.value().get(), nullptr, nullptr));
  REQUIRE(accepted);
  CHECK_THAT(net::peer_endpoint(accepted.get())->text(), Catch::StartsWith("127.0.0.1:"));
}

TEST_CASE("connections are accepted until there is none, with what a server wants of them") {
  const auto listener = net::listen_tcp("127.0.0.1", 0, 1);
  REQUIRE(listener);
  const RawPeer peer(net::own_endpoint(listener.value().get())->port);
  wait_readable(listener.value().get());
  const base::UniqueFd accepted = net::accept_tcp(listener.value().get(), std::chrono::seconds(7));
  REQUIRE(accepted);
  const auto option = [&](int level, int name) {
    int value = 0;
    socklen_t size = sizeof value;
    REQUIRE(::getsockopt(accepted.get(), level, name, &value, &size) == 0);
    return value;
  };
  CHECK(option(IPPROTO_TCP, TCP_NODELAY) != 0);
  CHECK(option(SOL_SOCKET, SO_KEEPALIVE) != 0);
  CHECK(option(IPPROTO_TCP, TCP_USER_TIMEOUT) == 7000);
  CHECK((::fcntl(accepted.get(), F_GETFL) & O_NONBLOCK) != 0);
  CHECK_FALSE(net::accept_tcp(listener.value().get(), std::chrono::seconds(7)));
  CHECK(errno == EAGAIN);
}

TEST_CASE("an IPv6 address stands in brackets") {
  const auto listener = net::listen_tcp("::1", 0, 1);
  if (!listener) return;
  CHECK_THAT(net::own_endpoint(listener.value().get())->text(), Catch::StartsWith("[::1]:"));
}

TEST_CASE("what cannot be listened on is refused with the reason") {
  CHECK_THAT(net::listen_tcp("node0", 80, 1).error().message,
             Catch::Contains("node0:80") && Catch::Contains("not an IP address"));
  CHECK_FALSE(net::listen_tcp("192.0.2.1", 0, 1));
}

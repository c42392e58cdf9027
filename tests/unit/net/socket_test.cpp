#include "net/socket.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <thread>

#include "net/address.h"
#include "support/catch.h"
#include "support/sockets.h"

using namespace ddp::test;
using namespace std::chrono_literals;
using namespace ddp;
using ddp::net::connect_tcp;
using ddp::net::receive_all;
using ddp::net::send_all;
using Kind = ddp::net::SocketFailure::Kind;

namespace {

ddp::net::Deadline in(std::chrono::milliseconds pause) {
  return std::chrono::steady_clock::now() + pause;
}

// Holds both ends of one connection over loopback.
struct Connection {
  BoundSocket listener;
  RawPeer client;
  RawPeer server;

  Connection() : client(listener.listen().port()), server(listener.accept()) {}
};

// Waits, because the client may have connected before the server's end can be accepted.
void wait_readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  REQUIRE(::poll(&entry, 1, 30'000) == 1);
}

}  // namespace

TEST_CASE("a connection to a closed port is refused") {
  const BoundSocket closed;
  const auto connected = connect_tcp("127.0.0.1", closed.port(), soon());
  REQUIRE_FALSE(connected);
  CHECK(connected.error().kind == Kind::refused);
  CHECK(connected.error().message == "Connection refused");
}

TEST_CASE("a host name that does not exist is not resolved") {
  const auto connected = connect_tcp("no such host", 1, soon());
  REQUIRE_FALSE(connected);
  CHECK(connected.error().kind == Kind::failed);
  CHECK_THAT(connected.error().message, Catch::StartsWith("name not resolved"));
}

TEST_CASE("a connected descriptor is not inherited by children") {
  const Connection connection;
  CHECK((::fcntl(connection.client.fd(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("receiving from a silent peer times out") {
  const Connection connection;
  char byte = 0;
  const auto got = receive_all(connection.client.fd(), {&byte, 1}, in(20ms));
  REQUIRE_FALSE(got);
  CHECK(got.error().kind == Kind::timed_out);
}

TEST_CASE("receiving from a peer that sends too little times out") {
  Connection connection;
  connection.server.says("ab");
  std::string text(3, '\0');
  const auto got = receive_all(connection.client.fd(), text, in(20ms));
  REQUIRE_FALSE(got);
  CHECK(got.error().kind == Kind::timed_out);
}

TEST_CASE("a peer that leaves during a message is reported as closed") {
  Connection connection;
  connection.server.says("ab");
  connection.server.vanishes();
  std::string text(3, '\0');
  const auto got = receive_all(connection.client.fd(), text, soon());
  REQUIRE_FALSE(got);
  CHECK(got.error().kind == Kind::closed);
}

TEST_CASE("sending to a peer that does not read times out") {
  const Connection connection;
  const std::string much(std::size_t{64} << 20, 'x');
  const auto sent = send_all(connection.client.fd(), much, in(50ms));
  REQUIRE_FALSE(sent);
  CHECK(sent.error().kind == Kind::timed_out);
}

TEST_CASE("sending to a closed peer is an error and not a signal") {
  Connection connection;
  connection.server.vanishes();
  const std::string much(std::size_t{64} << 20, 'x');
  const auto sent = send_all(connection.client.fd(), much, soon());
  REQUIRE_FALSE(sent);
  CHECK(sent.error().kind == Kind::closed);
}

TEST_CASE("available bytes are received even after the deadline") {
  Connection connection;
  connection.server.says("abc");
  connection.server.vanishes();
  std::string text(3, '\0');
  REQUIRE(receive_all(connection.client.fd(), {text.data(), 1}, soon()));
  REQUIRE(receive_all(connection.client.fd(), {text.data() + 1, 2}, in(-1s)));
  CHECK(text == "abc");
}

TEST_CASE("a long message arrives completely") {
  const Connection connection;
  std::string sent(std::size_t{16} << 20, '\0');
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * 31 >> 7);
  std::thread sender([&] { (void)send_all(connection.server.fd(), sent, soon()).ok(); });
  std::string received(sent.size(), '\0');
  const auto got = receive_all(connection.client.fd(), received, soon());
  sender.join();
  REQUIRE(got);
  CHECK((received == sent));
}

TEST_CASE("an empty message needs no peer") {
  CHECK(send_all(-1, {}, in(-1s)));
  CHECK(receive_all(-1, {}, in(-1s)));
}

TEST_CASE("a listener takes a free port, and both ends know their addresses") {
  const auto listener = net::listen_tcp("127.0.0.1", 0, 1);
  REQUIRE(listener);
  const std::uint16_t port = net::own_endpoint(listener.value().get())->port;
  REQUIRE(port != 0);
  const RawPeer peer(port);
  CHECK(net::peer_endpoint(peer.fd())->text() == "127.0.0.1:" + std::to_string(port));
}

TEST_CASE("a listener on all addresses accepts IPv4 and reports it as IPv4") {
  const auto listener = net::listen_tcp("::", 0, 1);
  if (!listener) return;  // there is no IPv6 here
  const RawPeer peer(net::own_endpoint(listener.value().get())->port);
  wait_readable(listener.value().get());
  const base::UniqueFd accepted(::accept(listener.value().get(), nullptr, nullptr));
  REQUIRE(accepted);
  CHECK_THAT(net::peer_endpoint(accepted.get())->text(), Catch::StartsWith("127.0.0.1:"));
}

TEST_CASE("all pending connections are accepted with the options of a server socket") {
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

TEST_CASE("an IPv6 address is printed in brackets") {
  const auto listener = net::listen_tcp("::1", 0, 1);
  if (!listener) return;
  CHECK_THAT(net::own_endpoint(listener.value().get())->text(), Catch::StartsWith("[::1]:"));
}

TEST_CASE("an address that cannot be listened on is an error with the reason") {
  CHECK_THAT(net::listen_tcp("node0", 80, 1).error().message,
             Catch::Contains("node0:80") && Catch::Contains("not an IP address"));
  CHECK_FALSE(net::listen_tcp("192.0.2.1", 0, 1));
}

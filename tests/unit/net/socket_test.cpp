#include "net/socket.h"

#include <fcntl.h>

#include <thread>

#include "support/catch.h"
#include "support/sockets.h"

using namespace ddp::test;
using namespace std::chrono_literals;
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

}  // namespace

TEST_CASE("a connection to a closed port is refused") {
  const BoundSocket closed;
  const auto connected = connect_tcp("127.0.0.1", closed.port(), soon());
  REQUIRE_FALSE(connected);
  CHECK(connected.error().kind == Kind::refused);
  CHECK(connected.error().message == "Connection refused");
}

TEST_CASE("a name that does not exist is not resolved") {
  const auto connected = connect_tcp("no such host", 1, soon());
  REQUIRE_FALSE(connected);
  CHECK(connected.error().kind == Kind::failed);
  CHECK_THAT(connected.error().message, Catch::StartsWith("name not resolved"));
}

TEST_CASE("a connected descriptor is not inherited by children") {
  const Connection connection;
  CHECK((::fcntl(connection.client.fd(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("a peer that says nothing times out") {
  const Connection connection;
  char byte = 0;
  const auto got = receive_all(connection.client.fd(), {&byte, 1}, in(20ms));
  REQUIRE_FALSE(got);
  CHECK(got.error().kind == Kind::timed_out);
}

TEST_CASE("a peer that says too little times out") {
  Connection connection;
  connection.server.says("ab");
  std::string text(3, '\0');
  const auto got = receive_all(connection.client.fd(), text, in(20ms));
  REQUIRE_FALSE(got);
  CHECK(got.error().kind == Kind::timed_out);
}

TEST_CASE("a peer that leaves in the middle has closed") {
  Connection connection;
  connection.server.says("ab");
  connection.server.vanishes();
  std::string text(3, '\0');
  const auto got = receive_all(connection.client.fd(), text, soon());
  REQUIRE_FALSE(got);
  CHECK(got.error().kind == Kind::closed);
}

TEST_CASE("a peer that does not read makes sending time out") {
  const Connection connection;
  const std::string much(std::size_t{64} << 20, 'x');
  const auto sent = send_all(connection.client.fd(), much, in(50ms));
  REQUIRE_FALSE(sent);
  CHECK(sent.error().kind == Kind::timed_out);
}

TEST_CASE("sending to a peer that is gone is a failure and not a signal") {
  Connection connection;
  connection.server.vanishes();
  const std::string much(std::size_t{64} << 20, 'x');
  const auto sent = send_all(connection.client.fd(), much, soon());
  REQUIRE_FALSE(sent);
  CHECK(sent.error().kind == Kind::closed);
}

TEST_CASE("bytes that are there are received after the deadline too") {
  Connection connection;
  connection.server.says("abc");
  connection.server.vanishes();
  std::string text(3, '\0');
  REQUIRE(receive_all(connection.client.fd(), {text.data(), 1}, soon()));
  REQUIRE(receive_all(connection.client.fd(), {text.data() + 1, 2}, in(-1s)));
  CHECK(text == "abc");
}

TEST_CASE("a long message arrives whole") {
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

TEST_CASE("nothing to send or receive needs no peer") {
  CHECK(send_all(-1, {}, in(-1s)));
  CHECK(receive_all(-1, {}, in(-1s)));
}

#include "net/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>

#include <cstring>

#include "support/catch.h"
#include "support/sockets.h"

using namespace ddp::test;
using ddp::net::Endpoint;
using ddp::net::IpAddress;
using ddp::net::to_endpoint;

namespace {

sockaddr_storage v4(const char* text, std::uint16_t port) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(port);
  REQUIRE(::inet_pton(AF_INET, text, &name.sin_addr) == 1);
  sockaddr_storage storage{};
  std::memcpy(&storage, &name, sizeof name);
  return storage;
}

sockaddr_storage v6(const char* text, std::uint16_t port, std::uint32_t interface = 0) {
  sockaddr_in6 name{};
  name.sin6_family = AF_INET6;
  name.sin6_port = htons(port);
  name.sin6_scope_id = interface;
  REQUIRE(::inet_pton(AF_INET6, text, &name.sin6_addr) == 1);
  sockaddr_storage storage{};
  std::memcpy(&storage, &name, sizeof name);
  return storage;
}

IpAddress address(const char* text) {
  const bool is_v6 = std::strchr(text, ':') != nullptr;
  return to_endpoint(is_v6 ? v6(text, 1) : v4(text, 1))->address;
}

}  // namespace

TEST_CASE("an endpoint is printed in the usual notation") {
  CHECK(to_endpoint(v4("10.0.0.1", 80))->text() == "10.0.0.1:80");
  CHECK(to_endpoint(v6("2001:db8::1", 65'535))->text() == "[2001:db8::1]:65535");
  CHECK(to_endpoint(v6("::1", 1))->text() == "[::1]:1");
  CHECK(to_endpoint(v6("fe80::1", 1, 1))->text() == "[fe80::1%lo]:1");
  CHECK(to_endpoint(v6("fe80::1", 1, 4'000'000))->text() == "[fe80::1%4000000]:1");
}

TEST_CASE("an IPv4 address is equal to its form in an IPv6 socket") {
  CHECK(to_endpoint(v6("::ffff:10.1.2.3", 7)) == to_endpoint(v4("10.1.2.3", 7)));
  CHECK(to_endpoint(v6("::fffe:10.1.2.3", 7)) != to_endpoint(v4("10.1.2.3", 7)));
}

TEST_CASE("a node knows its own address towards another one") {
  CHECK(ddp::net::own_address_towards("127.0.0.1") == address("127.0.0.1"));
  CHECK(ddp::net::own_address_towards("localhost")->is_loopback());
  CHECK_FALSE(ddp::net::own_address_towards("no-such-host.invalid"));
}

TEST_CASE("addresses of other families are not endpoints") {
  sockaddr_storage name{};
  name.ss_family = AF_UNIX;
  CHECK_FALSE(to_endpoint(name));
}

TEST_CASE("the loopback interface has many IPv4 addresses and one IPv6 address") {
  for (const char* text : {"127.0.0.1", "127.255.255.255", "::1", "::ffff:127.0.0.1"}) {
    INFO(text);
    CHECK(address(text).is_loopback());
    CHECK(ddp::net::is_own_address(address(text)));
  }
  for (const char* text : {"126.255.255.255", "128.0.0.1", "0.0.0.1", "::2", "::", "1::1"}) {
    INFO(text);
    CHECK_FALSE(address(text).is_loopback());
  }
}

TEST_CASE("documentation addresses belong to no node") {
  CHECK_FALSE(ddp::net::is_own_address(address("192.0.2.1")));
  CHECK_FALSE(ddp::net::is_own_address(address("2001:db8::1")));
}

TEST_CASE("an address counts as own if no descriptor is left to check it") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit none = before;
  none.rlim_cur = 0;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  const bool own = ddp::net::is_own_address(address("192.0.2.1"));
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(own);
}

TEST_CASE("each end of a connection is the peer of the other") {
  BoundSocket listener;
  const RawPeer client(listener.listen().port());
  const RawPeer server(listener.accept());
  CHECK(ddp::net::peer_endpoint(client.fd())->text() == "127.0.0.1:" + std::to_string(listener.port()));
  CHECK(ddp::net::peer_endpoint(server.fd()) == ddp::net::own_endpoint(client.fd()));
  CHECK(ddp::net::own_endpoint(server.fd()) == ddp::net::peer_endpoint(client.fd()));
  CHECK_FALSE(ddp::net::peer_endpoint(listener.fd()));
  CHECK_FALSE(ddp::net::peer_endpoint(-1));
}

TEST_CASE("an IPv6 address is printed in brackets before a port") {
  CHECK(ddp::net::host_and_port("node0", 1) == "node0:1");
  CHECK(ddp::net::host_and_port("::1", 29500) == "[::1]:29500");
}

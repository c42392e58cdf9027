#include "net/peer_owner.h"

#include <netinet/tcp.h>
#include <sys/wait.h>

#include <array>
#include <initializer_list>

#include "support/catch.h"
#include "support/local_connections.h"
#include "support/temporary_directory.h"

using namespace ddp::test;
using ddp::base::UniqueFd;
using ddp::net::Endpoint;
using ddp::net::find_in_socket_table;
using ddp::net::PeerLookup;
using ddp::net::PeerOwner;
using ddp::net::uid_of_unknown_users;
using Source = PeerLookup::Source;

namespace {

// Runs a child that stays connected as long as this object exists.
class ConnectedChild {
 public:
  ConnectedChild(std::uint16_t port, uid_t uid) {
    std::array<int, 2> ready{};
    std::array<int, 2> end{};
    REQUIRE(::pipe(ready.data()) == 0);
    REQUIRE(::pipe(end.data()) == 0);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      ::close(end[1]);
      char byte = 0;
      if (::setresuid(uid, uid, uid) != 0) ::_exit(1);
      const UniqueFd fd = connect_to(port, Family::v4);
      if (!fd || ::write(ready[1], &byte, 1) != 1) ::_exit(1);
      if (::read(end[0], &byte, 1) != 0) ::_exit(1);
      ::_exit(0);
    }
    ::close(ready[1]);
    ::close(end[0]);
    end_.reset(end[1]);
    char byte = 0;
    const bool connected = ::read(ready[0], &byte, 1) == 1;
    ::close(ready[0]);
    REQUIRE(connected);
  }
  ConnectedChild(const ConnectedChild&) = delete;
  ConnectedChild& operator=(const ConnectedChild&) = delete;
  ~ConnectedChild() { ends(); }

  void ends() {
    end_.reset();
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  UniqueFd end_;
};

const std::initializer_list<Source> kSources = {Source::diagnostics, Source::tables};

}  // namespace

TEST_CASE("the owner of a local peer is found") {
  CHECK(PeerLookup().source() != Source::none);
  CHECK(PeerLookup(Source::tables).source() == Source::tables);
}

TEST_CASE("a connection of this process belongs to this user over IPv4 and IPv6") {
  for (const Source source : kSources) {
    PeerLookup lookup(source);
    for (const Family family : {Family::v4, Family::v6, Family::mapped}) {
      CAPTURE(static_cast<int>(source), static_cast<int>(family));
      const Listener listener;
      const UniqueFd client = connect_to(listener.port, family);
      if (!client && family == Family::v6) {
        WARN("skipped: no loopback interface for IPv6");
        continue;
      }
      REQUIRE(client);
      const UniqueFd server = listener.accept();
      CHECK(lookup.owner_of_peer(server.get()) == owner_of(client));
      CHECK(lookup.owner_of_peer(client.get()) == owner_of(server));
    }
  }
}

TEST_CASE("a connection of another user's process belongs to that user") {
  if (::geteuid() != 0) {
    WARN("skipped: becoming another user takes root");
    return;
  }
  constexpr uid_t kNobody = 65'534;
  const Listener listener;
  ConnectedChild child(listener.port, kNobody);
  const UniqueFd server = listener.accept();
  for (const Source source : kSources) {
    PeerLookup lookup(source);
    const auto owner = lookup.owner_of_peer(server.get());
    REQUIRE(owner);
    CHECK(owner->uid == kNobody);
  }
  // The kernel shows root as the owner of sockets that a process has left.
  child.ends();
  hears_the_end(server);
  for (const Source source : kSources) {
    PeerLookup lookup(source);
    CHECK_FALSE(lookup.owner_of_peer(server.get()));
  }
}

TEST_CASE("a peer that has closed its socket has no owner") {
  for (const Source source : kSources) {
    PeerLookup lookup(source);
    const Listener listener;
    UniqueFd client = connect_to(listener.port, Family::v4);
    const UniqueFd server = listener.accept();
    client.reset();
    hears_the_end(server);
    CHECK_FALSE(lookup.owner_of_peer(server.get()));
    ::shutdown(server.get(), SHUT_WR);  // the peer is in TIME_WAIT now
    CHECK_FALSE(lookup.owner_of_peer(server.get()));
  }
}

TEST_CASE("a peer that has shut down sending but still receives has an owner") {
  for (const Source source : kSources) {
    PeerLookup lookup(source);
    const Listener listener;
    const UniqueFd client = connect_to(listener.port, Family::v4);
    const UniqueFd server = listener.accept();
    REQUIRE(::shutdown(client.get(), SHUT_WR) == 0);
    hears_the_end(server);
    CHECK(lookup.owner_of_peer(server.get()) == owner_of(client));
  }
}

TEST_CASE("a descriptor without a connection has no peer") {
  for (const Source source : kSources) {
    PeerLookup lookup(source);
    const Listener listener;
    CHECK_FALSE(lookup.owner_of_peer(listener.fd.get()));
    CHECK_FALSE(lookup.owner_of_peer(-1));
  }
}

TEST_CASE("a process that listens on the port of a closed peer is not its owner") {
  PeerLookup lookup;
  const Listener listener;
  // Both sockets have the port from the beginning, so that it is never free for another program.
  const int on = 1;
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof name;
  UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const UniqueFd heir(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  for (const UniqueFd* fd : std::initializer_list<const UniqueFd*>{&client, &heir}) {
    REQUIRE(::setsockopt(fd->get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
    REQUIRE(::bind(fd->get(), reinterpret_cast<sockaddr*>(&name), sizeof name) == 0);
    REQUIRE(::getsockname(fd->get(), reinterpret_cast<sockaddr*>(&name), &length) == 0);
  }
  sockaddr_in server_name = name;
  server_name.sin_port = htons(listener.port);
  REQUIRE(::connect(client.get(), reinterpret_cast<sockaddr*>(&server_name), sizeof server_name) == 0);
  const UniqueFd server = listener.accept();
  // A socket in repair mode is closed without a message to the other side.
  if (::setsockopt(client.get(), IPPROTO_TCP, TCP_REPAIR, &on, sizeof on) != 0) {
    WARN("skipped: TCP_REPAIR is for administrators");
    return;
  }
  client.reset();
  REQUIRE(::listen(heir.get(), 1) == 0);
  CHECK_FALSE(lookup.owner_of_peer(server.get()));
}

TEST_CASE("the owner is unknown if neither netlink nor the socket tables are readable") {
  const TemporaryDirectory empty;
  const PeerLookup lookup(Source::tables, empty.path());
  CHECK(lookup.source() == Source::none);

  PeerLookup blind(Source::none);
  const Listener listener;
  const UniqueFd client = connect_to(listener.port, Family::v4);
  const UniqueFd server = listener.accept();
  CHECK_FALSE(blind.owner_of_peer(server.get()));
}

namespace {

const std::string kTable4 =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 11 1 0 100 0 0 10 0\n"
    "   1: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1001        0 12 1 0 20 4 30 10 -1\n"
    "   2: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 13 1 0 20 4 30 10 -1\n"
    "   3: 0100007F:C351 0100007F:1F90 06 00000000:00000000 03:000017A4 00000000     0        0 0 3 0\n"
    "   4: 0100007F:C352 0100007F:1F90 02 00000000:00000000 00:00000000 00000000  1001        0 14 1 0 20 4 30 10 -1\n"
    "   5: 0100007F:C353 0100007F:1F90 08 00000000:00000000 00:00000000 00000000 4294967294        0 15 1 0\n"
    "   6: 0100007F:C354 0100007F:1F90 04 00000000:00000000 00:00000000 00000000     0        0 0 1 0\n"
    "   7: 0100007F:C355 0100007F:1F90 01";
const std::string kTable6 =
    "   0: 0000000000000000FFFF00000100007F:C360 0000000000000000FFFF00000100007F:1F90 01 "
    "00000000:00000000 00:00000000 00000000  1002        0 21 1 0 20 4 30 10 -1\n"
    "   1: 00000000000000000000000001000000:C361 00000000000000000000000001000000:1F90 01 "
    "00000000:00000000 00:00000000 00000000  1003        0 22 1 0 20 4 30 10 -1\n";

Endpoint local4(std::uint16_t port) {
  return {{.is_v6 = false, .bytes = {127, 0, 0, 1}}, port};
}
Endpoint local6(std::uint16_t port) {
  return {{.is_v6 = true, .bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}}, port};
}

}  // namespace

TEST_CASE("the socket tables are searched for the peer's end of the connection") {
  CHECK(find_in_socket_table(kTable4, local4(50'000), local4(8080)) == PeerOwner{1001, 12});
  CHECK(find_in_socket_table(kTable4, local4(8080), local4(50'000)) == PeerOwner{1000, 13});
  CHECK(find_in_socket_table(kTable4, local4(50'003), local4(8080)) == PeerOwner{4'294'967'294, 15});
  CHECK(find_in_socket_table(kTable6, local4(50'016), local4(8080)) == PeerOwner{1002, 21});
  CHECK(find_in_socket_table(kTable6, local6(50'017), local6(8080)) == PeerOwner{1003, 22});
}

TEST_CASE("unconnected or unheld sockets in the tables have no owner") {
  CHECK_FALSE(find_in_socket_table(kTable4, local4(50'001), local4(8080)));  // the socket is in TIME_WAIT
  CHECK_FALSE(find_in_socket_table(kTable4, local4(50'002), local4(8080)));  // the socket is in SYN_SENT
  CHECK_FALSE(find_in_socket_table(kTable4, local4(50'004), local4(8080)));  // the socket is closed and has unsent data
  CHECK_FALSE(find_in_socket_table(kTable4, local4(50'005), local4(8080)));  // this line is cut off
  CHECK_FALSE(find_in_socket_table(kTable4, local4(50'099), local4(8080)));
  CHECK_FALSE(find_in_socket_table(kTable4, local4(0), local4(0)));
  CHECK_FALSE(find_in_socket_table(kTable6, local6(50'016), local6(8080)));
  CHECK_FALSE(find_in_socket_table("", local4(50'000), local4(8080)));
}

TEST_CASE("users outside of the user namespace share the overflow uid") {
  CHECK_FALSE(uid_of_unknown_users("         0          0 4294967295\n", "65534\n"));
  CHECK(uid_of_unknown_users("         0       1000          1\n", "65534\n") == 65'534U);
  CHECK(uid_of_unknown_users("0 1000 1\n1 100000 65536\n", "99\n") == 99U);
  CHECK_FALSE(uid_of_unknown_users("0 1 4294967294\n4294967294 0 1\n", "65534\n"));
  CHECK(uid_of_unknown_users("0 1000 1\n", "") == 65'534U);
}

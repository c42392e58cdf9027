#include "net/tcp_bytes.h"

#include <linux/netlink.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "support/catch.h"
#include "support/local_connections.h"

using namespace ddp::test;
using ddp::base::UniqueFd;
using ddp::net::add_tcp_bytes;
using ddp::net::read_tcp_bytes;
using ddp::net::TcpBytes;

namespace {

// Returns std::nullopt if the kernel does not list the connection.
std::optional<TcpBytes> connection_of(const UniqueFd& fd) {
  struct stat status {};
  REQUIRE(::fstat(fd.get(), &status) == 0);
  const auto connections = read_tcp_bytes();
  REQUIRE(connections);
  const auto found = std::find_if(connections->begin(), connections->end(),
                                  [&](const TcpBytes& connection) { return connection.inode == status.st_ino; });
  return found == connections->end() ? std::nullopt : std::optional(*found);
}

}  // namespace

TEST_CASE("the kernel's byte counts of a connection cover both directions") {
  const Listener listener;
  for (const Family family : {Family::v4, Family::v6, Family::mapped}) {
    const UniqueFd client = connect_to(listener.port, family);
    REQUIRE(client);
    const UniqueFd server = listener.accept();
    const auto before = connection_of(client);
    REQUIRE(before);
    CHECK(before->remote_port == listener.port);
    CHECK(before->bytes <= 1);  // the kernel may count the SYN as a byte that was acknowledged
    const std::string text(50'000, 'x');
    REQUIRE(::write(server.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    std::string read(text.size(), ' ');
    REQUIRE(::recv(client.get(), read.data(), read.size(), MSG_WAITALL) == static_cast<ssize_t>(text.size()));
    CHECK(connection_of(client)->bytes == before->bytes + text.size());
    CHECK(connection_of(server)->local_port == listener.port);
  }
}

TEST_CASE("listening sockets and closed connections are not listed") {
  const Listener listener;
  CHECK_FALSE(connection_of(listener.fd));
}

TEST_CASE("a truncated or refused netlink answer is not a list") {
  std::vector<TcpBytes> connections;
  std::array<std::byte, 64> bytes{};
  nlmsghdr header{};
  const auto answer = [&](std::uint32_t length, std::uint16_t type) {
    header.nlmsg_len = length;
    header.nlmsg_type = type;
    std::memcpy(bytes.data(), &header, sizeof header);
    return add_tcp_bytes(bytes, connections);
  };
  constexpr std::uint16_t kByFamily = 20;  // SOCK_DIAG_BY_FAMILY
  CHECK(answer(sizeof header, NLMSG_DONE) == std::optional(false));
  CHECK_FALSE(answer(sizeof header + 4, NLMSG_ERROR));
  CHECK_FALSE(answer(0, kByFamily));
  CHECK_FALSE(answer(1000, kByFamily));
  CHECK_FALSE(answer(sizeof header + 8, kByFamily));
  CHECK_FALSE(add_tcp_bytes(std::span(bytes).first(7), connections));
  CHECK(connections.empty());
}

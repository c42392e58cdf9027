#include "launcher/start/doctor/between/probe_server.h"

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "launcher/start/doctor/between/probe_path.h"
#include "support/catch.h"

using namespace ddp::launcher::doctor;
using namespace std::chrono_literals;

namespace {

std::unique_ptr<ProbeServer> server_of(int node, std::uint64_t key = 7) {
  auto server = ProbeServer::open({.node = node, .host = "localhost", .address = "127.0.0.1", .ports = {}}, key);
  REQUIRE(server);
  return std::move(server).value();
}

}  // namespace

TEST_CASE("a node that can be reached answers on all ports, and its clock is the same") {
  const auto server = server_of(3);
  REQUIRE(server->address().ports.size() == kProbePorts);
  const Path path = probe_path(server->address(), 1, 7);
  CHECK(path.to == 3);
  CHECK(path.ports == std::vector(kProbePorts, Reach::open));
  CHECK(path.large == Flow::arrives);
  CHECK(path.small == Flow::unknown);
  CHECK(path.round_trip_us > 0);
  REQUIRE(path.clock_ahead_s);
  CHECK(std::abs(*path.clock_ahead_s) < 1);
}

TEST_CASE("data of a pair flow in both directions") {
  const auto server = server_of(3);
  const auto speed = measure_speed(server->address(), 1, 7);
  REQUIRE(speed);
  CHECK(speed->node == 1);
  CHECK(speed->other == 3);
  CHECK(speed->there > 0);
  CHECK(speed->back > 0);
}

TEST_CASE("a port without a server is refused, and another job's server is foreign") {
  NodeAddress gone = server_of(3)->address();
  CHECK(probe_path(gone, 1, 7).ports == std::vector(kProbePorts, Reach::refused));
  CHECK_FALSE(measure_speed(gone, 1, 7));
  const auto other_job = server_of(3, 8);
  CHECK(probe_path(other_job->address(), 1, 7).ports == std::vector(kProbePorts, Reach::foreign));
  const auto other_node = server_of(4);
  NodeAddress expected = other_node->address();
  expected.node = 3;
  CHECK(probe_path(expected, 1, 7).ports == std::vector(kProbePorts, Reach::foreign));
}

TEST_CASE("datagrams of the same job are counted by node") {
  const auto server = server_of(3);
  const auto other = server_of(1);
  const auto another_job = server_of(2, 8);
  other->send_datagrams({server->address()}, 5, 1ms);
  another_job->send_datagrams({server->address()}, 1, 1ms);
  for (int i = 0; i < 1000 && server->datagrams()[1] < 5; ++i) std::this_thread::sleep_for(5ms);
  CHECK(server->datagrams() == std::map<int, int>{{1, 5}});
}

TEST_CASE("garbage and a client that leaves do not disturb the server") {
  const auto server = server_of(3);
  const auto until = std::chrono::steady_clock::now() + 5s;
  for (const std::string& bytes : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(4096, '\xff'), std::string()}) {
    auto fd = ddp::net::connect_tcp("127.0.0.1", server->address().ports.front(), until);
    REQUIRE(fd);
    CHECK(ddp::net::send_all(fd.value().get(), bytes, until));
  }
  CHECK(probe_path(server->address(), 1, 7).large == Flow::arrives);
}

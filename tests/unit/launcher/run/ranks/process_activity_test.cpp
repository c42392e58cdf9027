#include "launcher/run/ranks/process_activity.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/deadline.h"
#include "support/local_connections.h"

using namespace ddp::launcher;
using ddp::test::eventually;

namespace {

std::chrono::steady_clock::time_point in_a_while() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(60);
}

ProcessCounters own_counters() {
  const std::array<pid_t, 1> self = {::getpid()};
  const auto counters = read_activity(self, {}, 0, in_a_while()).processes;
  REQUIRE(counters.size() == 1);
  return counters.front();
}

}  // namespace

TEST_CASE("the activity of a process is counted") {
  const ProcessCounters before = own_counters();
  CHECK(before.pid == ::getpid());
  CHECK(before.is_runnable);  // this process is running
  if (before.waited) CHECK(own_counters().waited >= before.waited);
  std::ofstream("/dev/null") << std::string(100'000, 'x') << std::flush;
  CHECK(own_counters().io_bytes >= before.io_bytes + 100'000);
  std::vector<char> memory(std::size_t{40} << 20U, 'x');  // more than malloc() keeps for later
  CHECK(own_counters().minor_faults > before.minor_faults);
  CHECK(eventually([&] { return own_counters().cpu_ticks > before.cpu_ticks; }));
}

TEST_CASE("a runnable thread is noticed, and a sleeping one is not") {
  std::array<int, 2> wake{};
  REQUIRE(::pipe(wake.data()) == 0);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    char byte = 0;
    const bool is_asked = ::read(wake[0], &byte, 1) == 1;
    while (is_asked) {
    }
    ::_exit(0);
  }
  const auto runs = [&] {
    const auto counters = read_activity(std::array<pid_t, 1>{child}, {}, 0, in_a_while()).processes;
    return !counters.empty() && counters.front().is_runnable;
  };
  CHECK(eventually([&] { return !runs(); }));
  CHECK(::write(wake[1], "x", 1) == 1);
  CHECK(eventually(runs));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK(read_activity(std::array<pid_t, 1>{child}, {}, 0, in_a_while()).processes.empty());
}

TEST_CASE("the connections of a process are listed without those to the store") {
  const ddp::test::Listener listener;
  const ddp::test::Listener store;
  const auto client = ddp::test::connect_to(listener.port, ddp::test::Family::v4);
  const auto other_half = listener.accept();
  const auto asks = ddp::test::connect_to(store.port, ddp::test::Family::v4);
  const auto all = ddp::net::read_tcp_bytes();
  REQUIRE(all);
  const std::array<pid_t, 1> self = {::getpid()};
  const ActivitySample sample = read_activity(self, all, store.port, in_a_while());
  // Both ends of one connection are counted. The store's end was not accepted, so no process holds it.
  CHECK(sample.connections.size() == 2);
  for (const auto& connection : sample.connections) {
    CHECK((connection.local_port == listener.port || connection.remote_port == listener.port));
  }
  CHECK(sample.is_complete);
  CHECK(read_activity({}, all, store.port, in_a_while()).connections.empty());
}

TEST_CASE("connections to other ranks are distinguished from other connections") {
  // Rank 0 talks to rank 1, to its own child, to a process that is no rank, and to another node.
  const std::vector<ddp::net::TcpBytes> all = {{1, 10, 20, 100}, {2, 20, 10, 101}, {3, 11, 12, 200}, {4, 12, 11, 200},
                                               {5, 13, 30, 400}, {6, 30, 13, 400}, {7, 14, 40, 800}, {8, 15, 41, 1600}};
  std::vector<ActivitySample> ranks(2);
  ranks[0].connections = {all[0], all[2], all[3], all[4], all[6], all[7]};
  ranks[0].of_program = {1, 3, 5, 7};  // its child talks to the other node, too
  ranks[1].connections = {all[1]};
  find_peers(ranks, all);
  CHECK(ranks[0].peer_bytes == 100);
  CHECK(ranks[0].far_bytes == 800);
  CHECK(ranks[1].peer_bytes == 101);
  CHECK(ranks[1].far_bytes == 0);
}

TEST_CASE("an unreadable counter is not treated as zero") {
  const std::array<pid_t, 1> self = {::getpid()};
  CHECK_FALSE(read_activity(self, std::nullopt, 0, in_a_while()).is_complete);  // the kernel reports no connections
  const std::vector<ddp::net::TcpBytes> none;
  CHECK(read_activity(self, none, 0, in_a_while()).is_complete);
  CHECK_FALSE(read_activity(self, none, 0, {}).is_complete);  // no time is left
}

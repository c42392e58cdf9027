#include "launcher/run/ranks/stack_taker.h"

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <map>

#include "launcher/limits.h"
#include "support/catch.h"
#include "support/temporary_directory.h"

using namespace ddp;
using namespace ddp::launcher;

namespace {

// Simulates workers whose answers the test sets.
class ScriptedHost : public RankProbe {
 public:
  StackRequest ask_for_stacks(int local_rank, StackMeans) override { return requests.at(local_rank); }
  std::vector<RawStack> stacks(int local_rank) override { return answers[local_rank]; }

  std::map<int, StackRequest> requests;
  std::map<int, std::vector<RawStack>> answers;
};

std::vector<RankStacks> take(ScriptedHost& host) {
  net::EventLoop loop;
  StackTaker taker(loop, host);
  std::vector<StackTarget> targets;
  for (const auto& [local_rank, request] : host.requests) targets.push_back({10 + local_rank, local_rank});
  std::vector<RankStacks> result;
  taker.take(targets, StackMeans::any, [&](std::vector<RankStacks> stacks) {
    result = std::move(stacks);
    loop.stop();
  });
  if (taker.is_taking()) {
    const auto timer = loop.at(std::chrono::steady_clock::now() + 4 * limits::kStackTime, [&] { loop.stop(); });
    loop.run();
  }
  return result;
}

}  // namespace

[[gnu::noinline]] void a_function_with_a_name() {
  asm volatile("");
}

TEST_CASE("addresses from a worker's handler get function names, and the first thread stays first") {
  ScriptedHost host;
  const pid_t pid = ::getpid();
  const auto address = reinterpret_cast<std::uint64_t>(&a_function_with_a_name);
  host.requests[0] = {"", pid, {pid, pid + 1}};
  host.answers[0] = {{pid + 1, {1}}, {pid, {address, address + 1}}};
  const auto stacks = take(host);
  REQUIRE(stacks.size() == 1);
  CHECK(stacks[0].rank == 10);
  CHECK(stacks[0].source == StackSource::signal_handler);
  REQUIRE(stacks[0].threads.size() == 2);
  CHECK(stacks[0].threads[0].tid == pid);
  CHECK_FALSE(stacks[0].threads[0].name.empty());
  REQUIRE(stacks[0].threads[0].frames.size() == 2);
  for (const std::string& frame : stacks[0].threads[0].frames) CHECK(frame.find("a_function_with_a_name") == 0);
  CHECK(stacks[0].missing.empty());
}

TEST_CASE("a thread that did not answer is named and does not delay the others") {
  ScriptedHost host;
  const pid_t pid = ::getpid();
  const auto address = reinterpret_cast<std::uint64_t>(&a_function_with_a_name);
  host.requests[0] = {"", pid, {pid, pid + 1}};
  host.answers[0] = {{pid, {address}}};
  host.requests[1] = {"", pid, {pid}};  // no thread of this worker answers
  host.requests[2] = {"it has exited", 0, {}};
  const auto began = std::chrono::steady_clock::now();
  const auto stacks = take(host);
  CHECK(std::chrono::steady_clock::now() - began < 6 * limits::kStackTime);
  REQUIRE(stacks.size() == 3);
  CHECK(stacks[0].threads.size() == 1);
  REQUIRE(stacks[0].missing.size() == 1);
  CHECK(stacks[0].missing[0].find("thread " + std::to_string(pid + 1) + " did not answer") == 0);
  CHECK(stacks[1].threads.empty());
  REQUIRE(stacks[1].missing.size() == 1);
  CHECK(stacks[1].missing[0].find("its signal handler did not answer") == 0);
  CHECK(stacks[2].missing == std::vector<std::string>{"it has exited"});
}

// A container has often none of py-spy, eu-stack and gdb.
TEST_CASE("stacks are copied if no tool is installed") {
  const TemporaryDirectory empty;
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", empty.path().c_str(), 1);
  const pid_t child = ::fork();
  if (child == 0) {
    while (true) ::pause();
  }
  ScriptedHost host;
  host.requests[0] = {"it has none", child, {child}};
  const auto stacks = take(host);
  ::setenv("PATH", path.c_str(), 1);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  REQUIRE(stacks.size() == 1);
  CHECK(stacks[0].source == StackSource::copied_stack);
  REQUIRE_FALSE(stacks[0].threads.empty());
  CHECK_FALSE(stacks[0].threads[0].frames.empty());
}

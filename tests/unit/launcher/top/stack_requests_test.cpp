#include "launcher/top/stack_requests.h"

#include "launcher/limits.h"
#include "support/catch.h"
#include "support/deadline.h"
#include "support/no_processes.h"

using namespace ddp::launcher;
using Lines = std::vector<std::string>;

namespace {

// All workers have ended.
class EndedHost : public NoProcesses {
 public:
  StackRequest ask_for_stacks(int local_rank, StackMeans means) override {
    asked.push_back(local_rank);
    is_gentle = is_gentle && means == StackMeans::gentle;
    return {"it has exited", 0, {}};
  }
  std::vector<int> asked;
  bool is_gentle = true;
};

}  // namespace

TEST_CASE("the lines of a rank's stacks name its threads, its frames and what is missing") {
  RankStacks stacks;
  stacks.source = "py-spy";
  stacks.threads = {{42, "python", {"wait (work.cpp:7)", "train (train.py:83)"}}, {0, "", {"?? (0x1)"}}};
  stacks.missing = {"gdb: not found in PATH"};
  CHECK(stack_lines(stacks) == Lines{"source: py-spy", "thread 42 (python):", "  wait (work.cpp:7)",
                                     "  train (train.py:83)", "thread:", "  ?? (0x1)",
                                     "not available: gdb: not found in PATH"});
  CHECK(stack_lines({}).empty());
}

TEST_CASE("requests are answered one after the other, also those that come during an answer") {
  ddp::net::EventLoop loop;
  EndedHost host;
  StackRequests requests(loop, host);
  Lines answers;
  const auto note = [&](int rank) {
    return [&answers, rank](const Lines& lines) {
      answers.push_back(std::to_string(rank) + ": " + (lines.empty() ? "" : lines.front()));
    };
  };
  requests.take(10, 0, [&, first = note(10)](const Lines& lines) {
    first(lines);
    requests.take(12, 2, note(12));
  });
  requests.take(11, 1, note(11));
  REQUIRE(ddp::test::eventually([&] {
    loop.poll();
    return answers.size() == 3;
  }));
  std::ranges::sort(host.asked);
  CHECK(host.asked == std::vector<int>{0, 1, 2});
  CHECK(host.is_gentle);
  for (const std::string& answer : answers) CHECK_THAT(answer, Catch::Contains("it has exited"));
}

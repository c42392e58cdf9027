#include "launcher/run/job/timed_faults.h"

#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.h"
#include "support/no_workers.h"

using namespace ddp;
using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

class Signalled : public NoWorkers {
 public:
  bool signal(int local_rank, int signal, SignalTarget target) override {
    CHECK(target == SignalTarget::group);
    signals.emplace_back(local_rank, signal);
    return true;
  }

  std::vector<std::pair<int, int>> signals;
};

}  // namespace

TEST_CASE("a rank that --inject kills is recognised in its attempt only") {
  LaunchPlan plan;
  plan.timed_faults = {wire::parse_fault("rank=1,at=1s,kind=kill").value(),
                       wire::parse_fault("rank=2,at=1s,kind=stop").value()};
  plan.faults = {"rank=3,at=any:7,kind=kill,attempt=1", "rank=4,at=any:7,kind=skip"};
  const auto killed = [&](int attempt) {
    std::vector<int> ranks;
    for (int rank = 0; rank < 6; ++rank) {
      if (has_injected_kill(plan, attempt, rank)) ranks.push_back(rank);
    }
    return ranks;
  };
  CHECK(killed(0) == std::vector{1});
  CHECK(killed(1) == std::vector{3});
}

TEST_CASE("timed faults are injected in order, into ranks of this node and of their attempt") {
  LaunchPlan plan;
  plan.workers = 2;
  for (const char* text : {"rank=4,at=10ms,kind=delay=20ms", "rank=5,at=20ms,kind=kill", "rank=3,at=1ms,kind=kill",
                           "rank=6,at=1ms,kind=kill", "rank=4,at=1ms,kind=kill,attempt=1"}) {
    plan.timed_faults.push_back(wire::parse_fault(text).value());
  }
  Placement placement;
  placement.first_rank = 4;
  net::EventLoop loop;
  Signalled workers;
  std::vector<std::string> lines;
  const LogWriter tell = [&](const LogLine& line) {
    lines.push_back(line.text);
    if (lines.size() == 3) loop.stop();
  };
  const TimedFaults faults(loop, workers, plan, placement, tell);
  CHECK(faults.pending() == 2);
  const auto timer = loop.at(std::chrono::steady_clock::now() + 20s, [&] { loop.stop(); });
  loop.run();
  CHECK(lines == std::vector<std::string>{"ddplaunch stops rank 4 (--inject)", "ddplaunch kills rank 5 (--inject)",
                                          "ddplaunch continues rank 4 (--inject)"});
  CHECK(faults.pending() == 0);
  CHECK(workers.signals == std::vector<std::pair<int, int>>{{0, SIGSTOP}, {1, SIGKILL}, {0, SIGCONT}});
}

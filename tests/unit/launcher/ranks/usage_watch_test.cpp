#include "launcher/ranks/usage_watch.h"

#include <unistd.h>

#include <vector>

#include "support/catch.h"
#include "support/no_processes.h"

using namespace ddp;
using namespace ddp::launcher;

namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

// Both ranks consist of this process.
class OneProcess : public NoProcesses {
 public:
  std::vector<pid_t> processes_of(int) override {
    ++searches;
    return {::getpid()};
  }
  int searches = 0;
};

struct Rig {
  // A busy computer must not end a measurement early.
  bool measure(std::uint64_t now) { return watch.measure(ranks, now, std::chrono::hours(1)); }

  net::EventLoop loop;
  OneProcess processes;
  std::uint64_t printed = 0;
  GpuWatch gpus{loop, false};
  UsageWatch watch{processes, gpus, 4, [this](int) { return printed; }};
  std::vector<RankView> ranks = [] {
    std::vector<RankView> views(2);
    views[0].rank = 4;
    views[1].rank = 5;
    return views;
  }();
};

}  // namespace

TEST_CASE("each rank is measured about once per second, and its processes are searched for less often") {
  Rig rig;
  CHECK(rig.measure(100 * kSecond));
  REQUIRE(rig.ranks[1].usage);
  CHECK(rig.ranks[1].usage->rss_bytes > 1'000'000);
  rig.ranks[1].usage.reset();
  CHECK_FALSE(rig.measure(100 * kSecond + kSecond / 2));
  CHECK(rig.ranks[1].usage->rss_bytes);  // the last measurement
  CHECK(rig.measure(101 * kSecond));
  CHECK(rig.ranks[0].usage->cpus);
  CHECK(rig.processes.searches == 2);
  rig.measure(111 * kSecond);
  CHECK(rig.processes.searches == 4);
}

TEST_CASE("the last output of a rank is known, also after it has ended") {
  Rig rig;
  rig.measure(100 * kSecond);
  CHECK(rig.ranks[0].usage->printed_at == 0);
  rig.printed = 10;
  rig.measure(101 * kSecond);
  CHECK(rig.ranks[0].usage->printed_at == 101 * kSecond);
  rig.ranks[0].has_ended = true;
  rig.measure(102 * kSecond);
  CHECK(rig.ranks[0].usage->printed_at == 101 * kSecond);
  CHECK(rig.ranks[0].usage->rss_bytes == std::nullopt);
  CHECK(rig.ranks[1].usage->rss_bytes);
}

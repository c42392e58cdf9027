#include "launcher/run/ranks/usage_watch.h"

#include <unistd.h>

#include <vector>

#include "support/catch.h"
#include "support/no_processes.h"

using namespace ddp;
using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
const auto kTicks = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));

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

TEST_CASE("the memory of this process is measured, and an exited process is left out") {
  const std::vector<pid_t> processes = {::getpid(), 0};
  const auto usage = sample_usage(processes);
  REQUIRE(usage.size() == 1);
  CHECK(usage[0].pid == ::getpid());
  CHECK(usage[0].rss_bytes > 1'000'000);
}

TEST_CASE("CPU usage is known from the second sample onwards") {
  UsageMeter meter;
  meter.add({{1, 10, 500 * kTicks, 1000}, {2, 11, 0, 500}}, 10s);
  CHECK(meter.usage().rss_bytes == 1500);
  CHECK(meter.usage().cpus == std::nullopt);
  meter.add({{1, 10, 503 * kTicks, 1000}, {2, 11, kTicks, 600}}, 12s);
  CHECK(meter.usage().rss_bytes == 1600);
  CHECK(meter.usage().cpus.value() == Approx(2.0).epsilon(0.001));
}

TEST_CASE("a new process or a reused pid adds no earlier CPU time") {
  UsageMeter meter;
  meter.add({{1, 10, 500, 1000}}, 10s);
  meter.add({{1, 10, 500, 1000}, {2, 11, 900 * kTicks, 1}}, 11s);
  CHECK(meter.usage().cpus == 0);
  meter.add({{1, 77, 900 * kTicks, 1000}}, 12s);
  CHECK(meter.usage().cpus == 0);
}

TEST_CASE("the time of the last output is when its amount changed") {
  UsageMeter meter;
  meter.add_output(0, 5);
  CHECK(meter.usage().printed_at == 0);
  meter.add_output(7, 6);
  meter.add_output(7, 9);
  CHECK(meter.usage().printed_at == 6);
  CHECK(meter.usage().output_bytes == 7);
}

TEST_CASE("an exited rank uses nothing, and its output is still known") {
  UsageMeter meter;
  meter.add({{1, 10, 0, 1000}}, 10s);
  meter.set_gpu(0.5, 1000);
  meter.add_output(7, 6);
  meter.end();
  CHECK(meter.usage() == RankUsage{.output_bytes = 7, .printed_at = 6});
}

TEST_CASE("each rank is measured about once per second, and its processes are listed less often") {
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

TEST_CASE("the time of a rank's last output is known, also after its exit") {
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

#include "launcher/run/ranks/activity_meter.h"

#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include "support/catch.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

// Simulates a rank of one process with one connection, which is sampled once per second.
struct MeteredRank {
  MeteredRank() {
    sample.processes = {{100, 1, 0, 0, 0, 0, false}};
    sample.connections = {{7, 4000, 5000, 0}};
    sample.is_complete = true;
  }
  // Calls `change` before each sample, with the number of the second.
  MeteredRank& passes(int seconds, const std::function<void(ActivitySample&, int)>& change = nullptr) {
    for (int i = 0; i < seconds; ++i) {
      if (change) change(sample, i);
      meter.add(sample, now);
      now += 1s;
    }
    return *this;
  }
  ProcessCounters& process() { return sample.processes.front(); }

  ActivitySample sample;
  ActivityMeter meter;
  std::chrono::nanoseconds now = 1h;
};

const std::uint64_t kTicks = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));

}  // namespace

TEST_CASE("a rank that does nothing is inactive for whole windows") {
  MeteredRank rank;
  CHECK_FALSE(rank.passes(1).meter.activity());
  CHECK(rank.passes(4).meter.activity()->still_for == 0s);
  rank.passes(1);
  CHECK(rank.meter.activity()->still_for == 5s);
  CHECK(rank.meter.activity()->last_sign == Sign::none);
  CHECK(rank.passes(1795).meter.activity()->still_for == 1800s);
  CHECK(rank.meter.activity()->unmoved_for == 1800s);
}

TEST_CASE("each sign of life makes a rank active, and values below the threshold do not") {
  struct Case {
    Sign sign;
    std::function<void(ActivitySample&, int)> enough;   // change per second that is a sign
    std::function<void(ActivitySample&, int)> too_few;  // change per second that is too small
  };
  using Sample = ActivitySample;
  const std::vector<Case> cases = {
      {Sign::output, [](Sample& s, int) { ++s.output_bytes; }, [](Sample&, int) {}},
      // A shell that polls has a child each second.
      {Sign::processes,
       [](Sample& s, int i) {
         s.processes.resize(1);
         s.processes.push_back({200 + i, 9, 0, 0, 0, 0, false, std::nullopt});
       },
       [](Sample&, int) {}},
      {Sign::processor, [](Sample& s, int) { s.processes[0].cpu_ticks += kTicks / 100; },
       [](Sample& s, int i) { s.processes[0].cpu_ticks += i % 5 == 1 ? kTicks / 25 : 0; }},
      {Sign::runnable, [](Sample& s, int i) { s.processes[0].is_runnable = i % 2 == 0; },
       [](Sample& s, int i) { s.processes[0].is_runnable = i % 5 == 2; }},
      {Sign::runnable, [](Sample& s, int i) { s.processes[0].waited = i * 100ms; },
       [](Sample& s, int i) {
         s.processes[0].waited = i * 99ms;
         s.processes[0].is_runnable = i % 5 != 2;
       }},
      // A thread never gets a processor, and the kernel has not counted its wait yet.
      {Sign::runnable,
       [](Sample& s, int) {
         s.processes[0].waited = 0ns;
         s.processes[0].is_runnable = true;
       },
       [](Sample&, int) {}},
      {Sign::faults, [](Sample& s, int) { s.processes[0].minor_faults += 20; },
       [](Sample& s, int) { s.processes[0].minor_faults += 19; }},
      {Sign::faults, [](Sample& s, int i) { s.processes[0].major_faults += i % 5 == 2 ? 1 : 0; }, [](Sample&, int) {}},
      {Sign::io, [](Sample& s, int) { s.processes[0].io_bytes += 820; },
       [](Sample& s, int) { s.processes[0].io_bytes += 819; }},
      {Sign::network, [](Sample& s, int) { s.connections[0].bytes += 205; },
       [](Sample& s, int) { s.connections[0].bytes += 204; }},
      {Sign::gpu,
       [](Sample& s, int i) {
         s.gpu = {i % 5 == 2 ? 1 : 0, std::nullopt};
       },
       [](Sample& s, int) {
         s.gpu = {0, std::nullopt};
       }},
      {Sign::gpu,
       [](Sample& s, int i) {
         s.gpu = {0, static_cast<std::uint64_t>(i) << 18};
       },
       [](Sample& s, int i) {
         s.gpu = {0, static_cast<std::uint64_t>(i) << 17};
       }},
  };
  for (const Case& one : cases) {
    CAPTURE(describe(one.sign));
    MeteredRank alive;
    alive.passes(61, one.enough);
    REQUIRE(alive.meter.activity());
    CHECK(alive.meter.activity()->last_sign == one.sign);
    CHECK(alive.meter.activity()->still_for == 0s);
    MeteredRank still;
    still.passes(61, one.too_few);
    CHECK(still.meter.activity()->last_sign == Sign::none);
    CHECK(still.meter.activity()->still_for == 60s);
  }
}

TEST_CASE("the run-queue time of ended threads is unknown, so that samples are used") {
  MeteredRank rank;
  rank.passes(61, [](ActivitySample& s, int i) {
    s.processes[0].waited = 1000s - i * 1s;
    s.processes[0].is_runnable = i % 2 == 0;
  });
  REQUIRE(rank.meter.activity());
  CHECK(rank.meter.activity()->last_sign == Sign::runnable);
  CHECK(rank.meter.activity()->still_for == 0s);
}

TEST_CASE("one sign of life after a long time makes a rank active again") {
  MeteredRank rank;
  rank.passes(1796);
  REQUIRE(rank.meter.activity()->still_for == 1795s);
  rank.process().major_faults = 1;
  CHECK(rank.passes(5).meter.activity()->still_for == 0s);
  CHECK(rank.passes(5).meter.activity()->still_for == 5s);
}

TEST_CASE("moved data is measured apart from other signs of life") {
  MeteredRank spins;
  spins.passes(61, [](ActivitySample& s, int) { s.processes[0].cpu_ticks += kTicks; });
  CHECK(spins.meter.activity()->still_for == 0s);
  CHECK(spins.meter.activity()->unmoved_for == 60s);
  CHECK(spins.meter.activity()->is_complete);
  CHECK(spins.meter.activity()->cpu_share == Approx(1));
  MeteredRank copies;
  const auto gpu_works = [](ActivitySample& s, int i) { s.gpu = {100, static_cast<std::uint64_t>(i) << 20}; };
  copies.passes(61, gpu_works);
  CHECK(copies.meter.activity()->unmoved_for == 0s);
  CHECK(copies.meter.activity()->counts_gpu_data);
  copies.passes(61, [](ActivitySample& s, int) { s.gpu = {100, std::nullopt}; });
  CHECK_FALSE(copies.meter.activity()->counts_gpu_data);
}

TEST_CASE("data in shared memory counts as moved but not as a sign of life") {
  MeteredRank rank;
  for (int i = 0; i < 6; ++i) {
    rank.sample.handed_on += 1;
    rank.passes(5);
  }
  REQUIRE(rank.meter.activity());
  CHECK(rank.meter.activity()->unmoved_for == 0s);
  CHECK(rank.meter.activity()->still_for == 25s);
}

TEST_CASE("time in which counters could not be read does not count as inactive") {
  MeteredRank rank;
  rank.passes(11);
  rank.sample.is_complete = false;
  rank.passes(60);
  CHECK_FALSE(rank.meter.activity()->is_complete);
  CHECK(rank.meter.activity()->still_for == 10s);
  CHECK(rank.meter.activity()->unmoved_for == 10s);
  rank.sample.is_complete = true;
  rank.passes(10);
  CHECK(rank.meter.activity()->is_complete);
  CHECK(rank.meter.activity()->still_for == 15s);
}

TEST_CASE("samples may be late on a busy node") {
  for (const bool wants_to_run : {false, true}) {
    MeteredRank rank;
    for (int i = 0; i < 60; ++i) {
      rank.now += 9s;
      rank.process().is_runnable = wants_to_run;
      rank.passes(1);
    }
    REQUIRE(rank.meter.activity());
    CHECK(rank.meter.activity()->last_sign == (wants_to_run ? Sign::runnable : Sign::none));
    CHECK(rank.meter.activity()->still_for == (wants_to_run ? 0s : 590s));
  }
}

TEST_CASE("time without samples says nothing about activity") {
  MeteredRank rank;
  rank.passes(600);
  REQUIRE(rank.meter.activity());
  rank.now += 3600s;  // the job continued, or the computer was asleep
  rank.passes(1);
  CHECK_FALSE(rank.meter.activity());
  CHECK(rank.passes(5).meter.activity()->still_for == 5s);
}

TEST_CASE("a window that the launcher disturbed is measured again") {
  MeteredRank rank;
  rank.passes(11);
  REQUIRE(rank.meter.activity()->still_for == 10s);
  rank.process().cpu_ticks += 100 * kTicks;  // the launcher took its stacks
  rank.meter.discard_window();
  CHECK(rank.passes(5).meter.activity()->still_for == 10s);
  CHECK(rank.passes(1).meter.activity()->still_for == 15s);
}

TEST_CASE("a reused pid counts as a different process") {
  MeteredRank rank;
  rank.process().cpu_ticks = 50 * kTicks;
  rank.passes(6);
  rank.process().started = 2;
  rank.process().cpu_ticks = 0;
  CHECK(rank.passes(5).meter.activity()->last_sign == Sign::processes);
  CHECK(rank.meter.activity()->cpu_share == Approx(0));
}

// record_bench measures what records cost (wire/record_ring_layout.h). It prints JSON.
//
//   record_bench                                    the cost of one record, of one collective and of one step, in ns
//   ddplaunch --nproc-per-node=4 record_bench step  the time of a step of data-parallel training, in µs
//
// A step computes for about 1 ms and reduces a model of 4 buckets with the backend cpu. Every rank makes its own ring
// and empties it in a thread every 50 ms, as the launcher does. Blocks of 4 steps with the modes off, steps and all
// take turns, and the first step of a block is not counted. "added" is the median of the differences between a block
// and the block with mode off of the same round, in percent of a step. "error" is half of its 95 % confidence interval,
// which is 1.57 times the distance of the quartiles, divided by the square root of the number of rounds.
#include <ddp/ddp.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "runtime/progress/group_progress.h"
#include "runtime/progress/record_ring.h"
#include "support/made_ring.h"
#include "wire/worker_env.h"

namespace {

using Clock = std::chrono::steady_clock;
using ddp::wire::RecordMode;

constexpr std::array kModes = {RecordMode::off, RecordMode::steps, RecordMode::all};
constexpr std::array kModeNames = {"off", "steps", "all"};

double quantile(std::vector<double> values, double share) {
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

double median(const std::vector<double>& values) {
  return quantile(values, 0.5);
}

// Takes all records as fast as a launcher that sees them every 50 ms. Destroyed at the end of the program.
class Drain {
 public:
  explicit Drain(const ddp::test::MadeRing& ring) : ring_(ring), thread_([this] { run(); }) {}
  ~Drain() {
    ends_ = true;
    thread_.join();
  }
  Drain(const Drain&) = delete;
  Drain& operator=(const Drain&) = delete;

 private:
  void run() {
    while (!ends_) {
      taken_ += ring_.take().size();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }

  const ddp::test::MadeRing& ring_;
  std::atomic<bool> ends_ = false;
  std::size_t taken_ = 0;
  std::thread thread_;
};

// Returns the median time per call. The ring is emptied between the rounds.
template <typename Action>
double nanoseconds(const ddp::test::MadeRing& ring, const Action& action) {
  constexpr int kRounds = 101;
  constexpr int kCalls = 1000;
  std::vector<double> times;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = Clock::now();
    for (int i = 0; i < kCalls; ++i) action();
    times.push_back(std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / kCalls);
    ring.take();
  }
  return median(times);
}

void measure_records() {
  const ddp::test::MadeRing made;
  const ddp::internal::RecordRing ring = made.map();
  static ddp::wire::StatusPageLayout page;
  ddp::internal::GroupProgress progress(ddp::internal::StatusPage(&page), true, "world", 7, 0, 4, ring);
  ddp::internal::Call call;
  std::vector<float> values(1024);
  call.operation = ddp::internal::Operation::all_reduce;
  call.input = values;
  call.output = values;
  call.name = "bucket 3: layer4.1.conv2.weight …, step 1234";
  const auto collective = [&] {
    ++call.sequence;
    call.called_at = Clock::now();
    progress.called(call);
    progress.waits(call, true);
    progress.started(call);
    progress.finished(call);
    progress.waits(call, false);
  };
  const std::uint64_t now = ddp::internal::monotonic_now();
  const ddp::internal::NewRecord record{.kind = ddp::wire::RecordKind::collective, .begin = now, .end = now + 1};
  ddp::internal::NewRecord named = record;
  named.name = "bucket 3: layer4.1.conv2.weight …";
  std::printf("{\"record_ns\": %.1f, ", nanoseconds(made, [&] { ring.add(record); }));
  std::printf("\"record_with_name_ns\": %.1f", nanoseconds(made, [&] { ring.add(named); }));
  for (std::size_t i = 0; i < kModes.size(); ++i) {
    made.layout->mode = kModes[i];
    std::uint64_t step = 0;
    std::printf(", \"%s\": {\"collective_ns\": %.1f, ", kModeNames[i], nanoseconds(made, collective));
    std::printf("\"step_ns\": %.1f}", nanoseconds(made, [&] { ring.end_step(++step); }));
  }
  std::printf(", \"dropped\": %llu}\n", static_cast<unsigned long long>(made.layout->dropped.load()));
}

// Has a fixed amount of work, which takes about 1 ms.
class Work {
 public:
  Work() {
    std::vector<double> times;
    for (int i = 0; i < 50; ++i) {
      const auto begin = Clock::now();
      compute(kTrial);
      times.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    }
    count_ = static_cast<std::size_t>(kTrial * 1e-3 / quantile(times, 0.1));
  }
  void operator()() { compute(count_); }

 private:
  static constexpr std::size_t kTrial = 20'000;

  void compute(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) value_ = value_ * 0.999999 + 1e-6;
  }

  volatile double value_ = 1;
  std::size_t count_ = 0;
};

void measure_steps(int rounds) {
  const ddp::test::MadeRing made(RecordMode::off);
  // The runtime finds the ring by its descriptor.
  ::setenv(ddp::wire::env::kRecordRing, std::to_string(made.descriptor).c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  const Drain drain(made);
  ddp::ProcessGroup world = ddp::init({.backend = "cpu"});
  if (made.layout->writer != ::getpid()) throw std::runtime_error("the runtime does not use the ring");
  std::vector<std::vector<float>> values(4, std::vector<float>(16 * 1024));
  std::vector<ddp::Tensor> parameters;
  for (auto& each : values) {
    parameters.push_back({"layer " + std::to_string(parameters.size()), each, {16 * 1024}});
  }
  ddp::DistributedDataParallel model(world, parameters, {.buckets = {.first_bytes = 1, .bytes = 1}});
  Work work;
  constexpr int kBlock = 4;
  std::array<std::vector<double>, kModes.size()> steps;
  std::array<std::vector<double>, kModes.size()> added;
  std::uint64_t step = 0;
  for (int round = 0; round < rounds; ++round) {
    std::array<double, kModes.size()> blocks{};
    for (std::size_t turn = 0; turn < kModes.size(); ++turn) {
      const std::size_t mode = (turn + static_cast<std::size_t>(round)) % kModes.size();
      made.layout->mode = kModes[mode];
      Clock::time_point begin;
      for (int i = 0; i < kBlock; ++i) {
        if (i == 1) begin = Clock::now();
        work();
        for (std::size_t parameter = parameters.size(); parameter-- > 0;) model.mark_ready(parameter);
        model.finish();
        ddp::progress(++step, 0, {{"loss", 1.0}});
      }
      blocks[mode] = std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / (kBlock - 1);
    }
    for (std::size_t mode = 0; mode < kModes.size(); ++mode) {
      steps[mode].push_back(blocks[mode]);
      added[mode].push_back(100 * (blocks[mode] - blocks[0]) / blocks[0]);
    }
  }
  if (world.rank() != 0) return;
  std::printf("{\"ranks\": %d, \"processors\": %u, \"rounds\": %d", world.size(), std::thread::hardware_concurrency(),
              rounds);
  for (std::size_t mode = 0; mode < kModes.size(); ++mode) {
    std::printf(", \"%s\": {\"step_us\": %.1f", kModeNames[mode], median(steps[mode]));
    if (mode > 0) {
      const double quartiles = quantile(added[mode], 0.75) - quantile(added[mode], 0.25);
      std::printf(", \"added_percent\": %.2f, \"error_percent\": %.2f", median(added[mode]),
                  1.57 * quartiles / std::sqrt(rounds));
    }
    std::printf("}");
  }
  std::printf(", \"dropped\": %llu}\n", static_cast<unsigned long long>(made.layout->dropped.load()));
}

}  // namespace

int main(int argc, char** argv) {
  const std::span<char*> arguments(argv, static_cast<std::size_t>(argc));
  if (arguments.size() > 1 && std::strcmp(arguments[1], "step") == 0) {
    measure_steps(arguments.size() > 2 ? std::atoi(arguments[2]) : 2000);
  } else {
    measure_records();
  }
}

// progress_bench: measures what showing a collective on the status page costs, in nanoseconds. With the argument `idle`
// it is a worker that does a small collective every 200 ms, for hang_bench.py.
#include <ddp/ddp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "runtime/progress/group_progress.h"

namespace {

using Clock = std::chrono::steady_clock;

// Returns the time per call: the median of the rounds.
template <typename Action>
double nanoseconds(const Action& action) {
  constexpr int kRounds = 31;
  constexpr int kCalls = 20'000;
  std::vector<double> times;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = Clock::now();
    for (int i = 0; i < kCalls; ++i) action();
    times.push_back(std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / kCalls);
  }
  std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
  return times[kRounds / 2];
}

[[noreturn]] void idle() {
  ddp::ProcessGroup world = ddp::init({.backend = "cpu"});
  std::vector<float> values(8);
  while (true) {
    world.all_reduce(values).wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "idle") == 0) idle();
  static ddp::wire::StatusPageLayout layout;
  ddp::internal::GroupProgress shown(ddp::internal::StatusPage(&layout), true, "world", 7, 0, 4);
  ddp::internal::GroupProgress not_shown({}, true, "world", 7, 0, 4);
  ddp::internal::Call call;
  std::vector<float> values(1024);
  call.operation = ddp::internal::Operation::all_reduce;
  call.input = values;
  call.output = values;
  call.name = "bucket 3: layer4.1.conv2.weight …, step 1234";
  call.site = ddp::CallSite::current();
  call.fingerprint = 42;
  const auto collective = [&](ddp::internal::GroupProgress& progress) {
    ++call.sequence;
    progress.called(call);
    progress.waits(call, true);
    progress.started(call);
    progress.finished(call);
    progress.waits(call, false);
  };
  const double with = nanoseconds([&] { collective(shown); });
  const double without = nanoseconds([&] { collective(not_shown); });
  std::printf("collective %.1f ns (without a page %.1f)\n", with, without);
}

#include "runtime/ddp/step_clock.h"

#include <array>
#include <string>
#include <thread>

#include "support/catch.h"

using namespace ddp;
using namespace ddp::internal;

namespace {

void plays_step(HostStepClock& clock) {
  clock.begin_bucket();
  clock.watch_bucket({});
  clock.enter_finish();
  clock.end_bucket();
  clock.join();
  clock.leave_finish(100);
}

// Lets time pass on the clock that is tested.
void wait_for_a_tick() {
  const auto now = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() == now) std::this_thread::yield();
}

// Records the work on its streams. The test sets the times of the marks.
struct ScriptedStreams {
  int program = 0;
  int other = 0;
  int side = 0;
  std::vector<std::string> said;
  std::vector<std::shared_ptr<double>> marks;  // negative if the mark is not reached yet

  static Stream stream(int& made) { return Stream::from_handle(&made); }
  std::string name(const void* stream) const {
    return stream == &program ? "program" : stream == &other ? "other" : "side";
  }
};

class ScriptedSide : public SideStream {
 public:
  explicit ScriptedSide(ScriptedStreams& streams) : streams_(streams) {}
  void* handle() const override { return &streams_.side; }
  void order(void* earlier, void* later) override {
    streams_.said.push_back(streams_.name(later) + " after " + streams_.name(earlier));
  }
  Mark mark(void* stream) override {
    streams_.said.push_back("mark " + streams_.name(stream));
    return streams_.marks.emplace_back(std::make_shared<double>(-1));
  }
  bool is_reached(const Mark& mark) override { return *static_cast<double*>(mark.get()) >= 0; }
  void finish(void*, std::chrono::nanoseconds) override {}
  void copy_to_pinned(void*, const void*, std::size_t) override {}
  std::optional<double> seconds(const Mark& earlier, const Mark& later) override {
    const double first = *static_cast<double*>(earlier.get());
    const double second = *static_cast<double*>(later.get());
    if (first < 0 || second < 0) return std::nullopt;
    return second - first;
  }

 private:
  ScriptedStreams& streams_;
};

void play_step(GpuStepClock& clock) {
  clock.begin_bucket();
  clock.begin_bucket();
  clock.enter_finish();
  clock.end_bucket();
  clock.end_bucket();
  clock.join();
  clock.leave_finish(100);
}

}  // namespace

TEST_CASE("statistics are means over steps") {
  StepStatistics mean;
  add(mean, {1, 2, 3, 10});
  add(mean, {3, 4, 5, 20});
  CHECK(mean.steps == 2);
  CHECK(mean.compute_seconds == Approx(2));
  CHECK(mean.communication_seconds == Approx(3));
  CHECK(mean.exposed_seconds == Approx(4));
  CHECK(mean.bytes == Approx(15));
}

TEST_CASE("the waiting time of overlapping buckets is counted once") {
  CHECK(seconds_under_way({}) == 0);
  // The second bucket waits for the first one for a second, and the third begins after a pause.
  const std::array<Interval, 3> buckets = {{{-1, 2}, {1, 4}, {6, 7}}};
  CHECK(seconds_under_way(buckets) == Approx(3 + 2 + 1));
  // A bucket that ends together with the previous one takes no further time.
  const std::array<Interval, 2> hidden = {{{0, 5}, {1, 5}}};
  CHECK(seconds_under_way(hidden) == Approx(5));
}

TEST_CASE("HostStepClock counts a step when it ends, omits an abandoned one, and has no stream") {
  HostStepClock clock(0);
  clock.begin_step();
  CHECK(!clock.begin_bucket());
  clock.abandon();
  CHECK(clock.statistics().steps == 0);
  wait_for_a_tick();
  plays_step(clock);
  CHECK(clock.statistics().steps == 1);
  CHECK(clock.statistics().compute_seconds > 0);
  CHECK(clock.statistics().communication_seconds == 0);  // no work was watched
  CHECK(clock.statistics().bytes == 100);
  clock.use(Stream(nullptr));
  CHECK(!clock.stream());
  clock.reset_statistics();
  CHECK(clock.statistics().steps == 0);
}

TEST_CASE("gradients on the host are timed from the beginning of the step") {
  HostStepClock clock(2);
  clock.begin_step();
  wait_for_a_tick();
  clock.mark_ready(1);
  const double first = clock.seconds_until_ready(1);
  CHECK(first > 0);
  clock.mark_ready(2);  // is not timed
  wait_for_a_tick();
  clock.mark_ready(1);
  CHECK(clock.seconds_until_ready(1) > first);
  clock.forget_gradients();
  clock.mark_ready(1);
}

TEST_CASE("buckets wait for the program's stream, and the stream waits for them at the end") {
  ScriptedStreams streams;
  GpuStepClock clock(std::make_unique<ScriptedSide>(streams), streams.stream(streams.program), 0);
  streams.said.clear();
  CHECK(clock.begin_bucket().handle() == &streams.side);
  CHECK(streams.said == std::vector<std::string>{"side after program", "mark side"});
  streams.said.clear();
  clock.enter_finish();
  clock.end_bucket();
  clock.join();
  clock.leave_finish(1);
  CHECK(streams.said == std::vector<std::string>{"mark program", "mark side", "program after side", "mark program"});
}

TEST_CASE("a program that changes its stream keeps the order of earlier work") {
  ScriptedStreams streams;
  GpuStepClock clock(std::make_unique<ScriptedSide>(streams), streams.stream(streams.program), 0);
  streams.said.clear();
  clock.use(streams.stream(streams.program));
  CHECK(streams.said.empty());
  clock.use(streams.stream(streams.other));
  clock.begin_bucket();
  CHECK(streams.said == std::vector<std::string>{"side after program", "side after other", "mark side"});
  streams.said.clear();
  clock.use(streams.stream(streams.program));
  clock.end_bucket();
  clock.join();
  CHECK(streams.said == std::vector<std::string>{"side after other", "mark side", "program after side"});
}

TEST_CASE("steps are counted when the GPU has completed them") {
  ScriptedStreams streams;
  GpuStepClock clock(std::make_unique<ScriptedSide>(streams), streams.stream(streams.program), 0);
  const StepStatistics& mean = clock.statistics();
  play_step(clock);
  play_step(clock);
  clock.statistics();
  CHECK(mean.steps == 0);
  // The step begins at 0. The buckets begin at 1 and 2, and end at 3 and 6. finish() is entered at 4 and left at 6.
  const std::vector<double> times = {0, 1, 2, 4, 3, 6, 6};
  for (std::size_t i = 0; i < times.size(); ++i) *streams.marks[i] = times[i];
  clock.statistics();
  CHECK(mean.steps == 1);
  CHECK(mean.compute_seconds == Approx(4));
  CHECK(mean.communication_seconds == Approx(5));
  CHECK(mean.exposed_seconds == Approx(2));
  CHECK(mean.bytes == Approx(100));
  // The second step began when the first one was left. None of its communication is exposed.
  const std::vector<double> later = {7, 7, 9, 8, 8, 9};
  for (std::size_t i = 0; i < later.size(); ++i) *streams.marks[times.size() + i] = later[i];
  clock.statistics();
  CHECK(mean.steps == 2);
  CHECK(mean.compute_seconds == Approx((4 + 3) / 2.0));
  CHECK(mean.communication_seconds == Approx((5 + 1) / 2.0));
  CHECK(mean.exposed_seconds == Approx(1));
}

TEST_CASE("without statistics only the marks of unfinished steps are kept") {
  ScriptedStreams streams;
  GpuStepClock clock(std::make_unique<ScriptedSide>(streams), streams.stream(streams.program), 0);
  const StepStatistics& mean = clock.statistics();
  for (int i = 0; i < 1000; ++i) {
    play_step(clock);
    for (const auto& mark : streams.marks) *mark = 1;
    std::erase_if(streams.marks, [](const auto& mark) { return mark.use_count() == 1; });
    REQUIRE(streams.marks.size() <= 16);
  }
  CHECK(mean.steps >= 998);
}

TEST_CASE("a gpu's gradients are timed from the beginning of the step, until they are forgotten") {
  ScriptedStreams streams;
  GpuStepClock clock(std::make_unique<ScriptedSide>(streams), streams.stream(streams.program), 2);
  streams.marks.clear();
  clock.begin_step();
  clock.mark_ready(1);
  REQUIRE(streams.marks.size() == 2);
  CHECK(clock.seconds_until_ready(1) == 0);  // not reached
  *streams.marks[0] = 2;
  *streams.marks[1] = 5;
  CHECK(clock.seconds_until_ready(1) == Approx(3));
  CHECK(clock.seconds_until_ready(0) == 0);  // never marked
  clock.forget_gradients();
  clock.begin_step();
  clock.mark_ready(1);
  CHECK(streams.marks.size() == 2);
}

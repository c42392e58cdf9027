// Tests jobs whose collectives run on GPUs.
#include <chrono>
#include <optional>
#include <vector>

#include "launcher/run/watchdog/hang_detector.h"
#include "support/catch.h"
#include "support/hanging_job.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;
using Kind = HangNews::Kind;
using Job = HangingJob;

TEST_CASE("a GPU that has not begun a collective is named") {
  for (const bool computes : {true, false}) {
    Job job(hang_plan(600s));
    job.warm().call(0).call(1);
    for (RankView& view : job.ranks) {
      GroupView& group = view.page.groups[0];
      group.gpu_queued = group.called;
      group.gpu_started = computes && view.rank == 1 ? group.finished : group.called;
      group.gpu_finished = group.finished;
    }
    const auto began = job.now();
    job.passes(20min);
    REQUIRE(job.last(Kind::hung));
    CHECK(job.news.back().second.verdict.kind == (computes ? VerdictKind::gpu_behind : VerdictKind::transport));
    CHECK(job.last_news_after(began) == Approx(600).margin(1.1));
  }
}

TEST_CASE("a job in which all ranks wait for their GPUs is given up if no data moves between them") {
  enum class Data : std::uint8_t { unknown, moves, rests };
  for (const Data data : {Data::unknown, Data::moves, Data::rests}) {
    Job job;
    job.warm().call(0).call(1);
    for (RankView& view : job.ranks) {
      view.page.groups[0].gpu_queued = view.page.groups[0].gpu_started = view.page.groups[0].called;
      view.page.groups[0].gpu_finished = view.page.groups[0].finished;
      job.does(view.rank, [=, moved = std::uint64_t{0}](ActivitySample& sample) mutable {
        sample.gpu = {100, std::nullopt};  // the process spins
        if (data == Data::moves) moved += std::uint64_t{1} << 20;
        if (data != Data::unknown) sample.gpu->moved_bytes = moved;
      });
    }
    job.passes(45min);
    CHECK((job.last(Kind::hung) != nullptr) == (data == Data::rests));
  }
}

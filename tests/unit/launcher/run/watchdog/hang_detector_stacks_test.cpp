// Tests what stacks reveal of PyTorch programs that record nothing.
#include <chrono>
#include <vector>

#include "launcher/run/watchdog/hang_detector.h"
#include "support/catch.h"
#include "support/hanging_job.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;
using Kind = HangNews::Kind;
using Job = HangingJob;

namespace {

// Returns a job of PyTorch whose rank 0 has begun an operation and does something else, with --hang-timeout=15.
Job job_that_only_began() {
  Job job(hang_plan(15s));
  job.warm();
  for (RankView& view : job.ranks) view.is_torch = view.page.groups[0].is_sampled = true;
  job.call(0);
  job.ranks[0].is_elsewhere = true;
  return job;
}

}  // namespace

TEST_CASE("a wait found in stacks counts from its beginning, and data moved by the awaited rank is progress") {
  const auto ended_after = [](bool moves_data) {
    Job job(hang_plan(20s));
    for (RankView& view : job.ranks) {
      view.page = {};
      view.is_torch = true;
    }
    job.computes(0).computes(1).passes(10min);
    CHECK(job.news.empty());
    GroupView group = {"world", 0, 2, 0, 1, 1, 0, 0, 0};
    group.is_sampled = group.is_by_stack = true;
    job.ranks[0].page.groups = {group};
    if (moves_data) job.does(1, [](ActivitySample& sample) { sample.connections[0].bytes += 1'000'000; });
    const auto began = job.now();
    job.passes(60s);
    const HangNews* const hung = job.last(Kind::hung);
    if (hung != nullptr) CHECK(hung->verdict.culprits == std::vector<int>{1});
    return hung == nullptr ? -1.0 : job.last_news_after(began);
  };
  CHECK(ended_after(false) == Approx(15).margin(1.1));  // five seconds had passed before
  CHECK(ended_after(true) == -1.0);
}

TEST_CASE("a wait found in stacks is reported sooner in a job whose pauses are known") {
  const auto reported_after = [](bool is_warm) {
    Job job;
    for (RankView& view : job.ranks) view.page.groups[0].identity = 5;  // what stacks tell has no identity
    if (is_warm) job.warm();
    for (RankView& view : job.ranks) view.is_torch = true;
    job.computes(0).computes(1).passes(5s);
    GroupView group = {"world", 0, 2, 0, 1, 1, 0, 0, 0};
    group.is_sampled = group.is_by_stack = true;
    job.ranks[0].page.groups.push_back(group);
    job.passes(30s);
    return job.last(Kind::stalled) == nullptr ? -1.0
                                              : std::chrono::duration<double>(job.last(Kind::stalled)->age).count();
  };
  CHECK(reported_after(false) == Approx(15).margin(1.1));
  CHECK(reported_after(true) == Approx(10).margin(1.1));
}

TEST_CASE("data that a rank exchanges with others counts as progress that PyTorch does not record") {
  const auto ended_after = [](bool exchanges, bool uses_nccl) {
    Job job(hang_plan(15s));
    job.warm();
    for (RankView& view : job.ranks) {
      view.is_torch = view.page.groups[0].is_sampled = true;
      if (uses_nccl) view.page.groups[0].gpu_queued = 1;
    }
    if (exchanges) job.does(1, [](ActivitySample& sample) { sample.peer_bytes += 16; });
    job.call(0);
    const auto began = job.now();
    job.passes(60s);
    return job.last(Kind::hung) == nullptr ? -1.0 : job.last_news_after(began);
  };
  CHECK(ended_after(false, false) == Approx(15).margin(1.1));
  CHECK(ended_after(true, false) == -1.0);
  // Threads of NCCL exchange data without the program.
  CHECK(ended_after(true, true) == Approx(15).margin(1.1));
}

TEST_CASE("a rank that began an operation and computes does not wait for it") {
  Job job = job_that_only_began();
  const auto began = job.now();
  job.passes(40s);
  CHECK(job.last(Kind::hung) == nullptr);
  // It waits, and has rested for five seconds.
  job.ranks[0].is_elsewhere = false;
  job.passes(5s);
  REQUIRE(job.last(Kind::hung) != nullptr);
  CHECK(job.last_news_after(began) == Approx(42).margin(1.1));
}

TEST_CASE("a rank that polls its operation again and again is given up later") {
  Job job = job_that_only_began();
  const auto began = job.now();
  job.passes(100s);
  REQUIRE(job.last(Kind::hung) != nullptr);
  CHECK(job.last_news_after(began) == Approx(60).margin(1.1));
}

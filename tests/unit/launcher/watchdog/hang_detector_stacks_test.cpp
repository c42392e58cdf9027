// Tests what stacks reveal of PyTorch programs that record nothing.
#include <chrono>
#include <vector>

#include "launcher/watchdog/hang_detector.h"
#include "support/catch.h"
#include "support/hanging_job.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;
using Kind = HangNews::Kind;
using Job = HangingJob;

TEST_CASE("a wait that stacks tell counts from its beginning, and data that moves is progress of who is waited for") {
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

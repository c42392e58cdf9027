#include "launcher/see/view/open_spans.h"

#include <vector>

#include "support/catch.h"

using namespace ddp::launcher;

namespace {

RankView rank_in(std::uint64_t called, std::uint64_t finished) {
  RankView view;
  view.rank = 3;
  view.seen_at = 1000;
  view.page.is_written = true;
  view.page.phase = RankPhase::training;
  view.page.groups.push_back({"world", 3, 4, 0, called, finished, finished, 0, 0});
  return view;
}

}  // namespace

TEST_CASE("a rank that has finished its calls and trains has no open operation") {
  CHECK(open_spans(rank_in(7, 7)).empty());
  RankView view = rank_in(8, 7);
  view.page.groups[0].is_left = true;
  CHECK(open_spans(view).empty());
  CHECK(open_spans(RankView()).empty());
}

TEST_CASE("unfinished collectives are named as far as they are known") {
  RankView view = rank_in(9, 6);
  view.arrivals = {{{7, 500}, {8, 600}}};
  view.calls = {{{7, 1, 501, "all_reduce f32[8]", "bucket 0", ""}}};
  CHECK(open_spans(view) == std::vector<OpenSpan>{{false, "all_reduce f32[8] ('bucket 0')", "world", 7, 501},
                                                  {false, "collective", "world", 8, 600},
                                                  {false, "collective", "world", 9, 1000}});
}

TEST_CASE("only the oldest of many unfinished collectives are named") {
  const auto spans = open_spans(rank_in(UINT64_MAX, 0));
  REQUIRE(spans.size() == 4);
  CHECK(spans.back().number == 4);
}

TEST_CASE("a phase other than training is shown until the program is done") {
  RankView view = rank_in(7, 7);
  view.page.phase = RankPhase::evaluation;
  view.page.phase_name = "validation";
  view.page.phase_since = 300;
  CHECK(open_spans(view) == std::vector<OpenSpan>{{true, "evaluation ('validation')", "", 0, 300}});
  view.page.phase = RankPhase::done;
  CHECK(open_spans(view).empty());
}

TEST_CASE("a sample with less information keeps that of an earlier one") {
  RankView view = rank_in(7, 6);
  view.arrivals = {{{7, 500}}};
  view.calls = {{{7, 1, 501, "barrier", "", ""}}};
  const auto known = open_spans(view);
  view.calls.clear();
  view.arrivals.clear();
  auto spans = open_spans(view);
  keep_what_is_known(known, spans);
  CHECK(spans == known);
  view.page.groups[0].called = 8;
  view.page.groups[0].finished = 7;
  spans = open_spans(view);
  keep_what_is_known(known, spans);
  CHECK(spans == std::vector<OpenSpan>{{false, "collective", "world", 8, 1000}});
}

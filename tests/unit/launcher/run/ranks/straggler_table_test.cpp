#include "launcher/run/ranks/straggler_table.h"

#include <utility>
#include <vector>

#include "launcher/run/ranks/rank_book.h"
#include "support/catch.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t kMillisecond = 1'000'000;

// Returns ranks in one group that call at these times, in milliseconds, by rank.
std::vector<RankView> ranks_at(std::uint64_t sequence, const std::vector<std::uint64_t>& times) {
  std::vector<RankView> ranks;
  for (std::size_t i = 0; i < times.size(); ++i) {
    RankView view;
    view.rank = static_cast<int>(i);
    view.page.groups.push_back({"world", view.rank, static_cast<int>(times.size()), 0, sequence, sequence, sequence});
    view.arrivals = {{{sequence, times[i] * kMillisecond}}};
    ranks.push_back(view);
  }
  return ranks;
}

// A table that sees samples 50 ms apart.
struct SampledTable {
  void sample(std::vector<RankView> ranks) {
    book.pass(50ms, 0);
    book.add(std::move(ranks), SampleDepth::pages);
    table.add(book.picture());
  }
  void time_passes() {
    book.pass(50ms, 0);
    table.add(book.picture());
  }
  StragglerReport report() const { return table.report(); }

  RankBook book{false, 1s};
  StragglerTable table;
};

const Straggler& of(const StragglerReport& report, int rank) {
  for (const Straggler& straggler : report.ranks) {
    if (straggler.rank == rank) return straggler;
  }
  FAIL("no such rank");
  return report.ranks.front();
}

}  // namespace

TEST_CASE("the last rank in a collective is counted once, with its delay") {
  SampledTable table;
  table.sample(ranks_at(1, {10, 11, 30, 12}));
  table.sample(ranks_at(1, {10, 11, 30, 12}));  // this sample was seen before
  table.sample(ranks_at(2, {50, 51, 61, 52}));
  table.sample(ranks_at(3, {70, 99, 71, 72}));
  const StragglerReport report = table.report();
  CHECK(report.collectives == 3);
  CHECK(report.time == 200ms);
  CHECK(of(report, 2).last == 2);
  CHECK(of(report, 2).late == 29ms);  // the sum of 30 - 11 and 61 - 51
  CHECK(of(report, 1).last == 1);
  CHECK(of(report, 1).late == 28ms);
  CHECK(report.ranks.front().rank == 2);
}

TEST_CASE("the waiting time that a rank causes is measured") {
  SampledTable table;
  std::vector<RankView> ranks = ranks_at(5, {1, 2, 3});
  ranks[1].page.groups[0].called = 4;
  for (int i = 0; i < 5; ++i) table.sample(ranks);
  for (int i = 0; i < 5; ++i) table.time_passes();
  ranks[1].page.groups[0].called = 5;
  table.sample(ranks);
  ranks[1].page.groups[0].called = 4;
  table.sample(ranks);
  const StragglerReport report = table.report();
  CHECK(report.ranks.front().rank == 1);
  CHECK(report.ranks.front().waited_for == 550ms);
  CHECK(report.ranks.front().longest_wait == 500ms);
  CHECK(of(report, 0).waited_for == 0ms);
}

TEST_CASE("a rank for which two groups wait is counted once") {
  SampledTable table;
  std::vector<RankView> ranks = ranks_at(5, {1, 2});
  for (RankView& view : ranks) {
    view.page.groups.push_back(view.page.groups[0]);
    view.page.groups[1].name = "second";
    view.page.groups[1].identity = 2;
  }
  for (GroupView& group : ranks[1].page.groups) group.called = 4;
  for (int i = 0; i < 4; ++i) table.sample(ranks);
  CHECK(of(table.report(), 1).waited_for == 200ms);
  CHECK(of(table.report(), 1).longest_wait == 200ms);
}

TEST_CASE("groups with missing ranks are not counted") {
  SampledTable table;
  std::vector<RankView> ranks = ranks_at(1, {1, 2, 3});
  ranks[2].has_ended = true;
  table.sample(ranks);
  ranks = ranks_at(1, {1, 2});
  for (RankView& view : ranks) view.page.groups[0].size = 3;
  table.sample(ranks);
  table.sample(ranks_at(1, {1}));
  CHECK(table.report().ranks.empty());
  CHECK(table.report().collectives == 0);
}

TEST_CASE("arrivals that a status page has overwritten do not count as late") {
  SampledTable table;
  std::vector<RankView> ranks = ranks_at(40, {1, 2});
  ranks[1].arrivals = {{{56, 90 * kMillisecond}}};
  table.sample(ranks);
  ranks[1].arrivals.clear();
  table.sample(ranks);
  CHECK(table.report().collectives == 0);
}

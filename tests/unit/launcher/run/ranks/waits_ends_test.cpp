#include <cstdint>
#include <vector>

#include "launcher/run/ranks/group_members.h"
#include "support/catch.h"
#include "support/group_ranks.h"

using namespace ddp::launcher;

TEST_CASE("for an exited rank only data read after its exit are certain") {
  enum class Page : std::uint8_t { exact, sampled, final };
  struct Row {
    const char* call;
    int root;
    Page page;                  // of rank 2, which has ended
    std::uint64_t called;       // by rank 2
    std::uint64_t finished;     // by rank 2
    std::uint64_t late_called;  // by rank 1; rank 0 waits in 7
    VerdictKind kind;
    std::vector<int> culprits;
    bool is_doubtful;
  };
  using enum VerdictKind;
  const std::vector<Row> rows = {
      // A rank that has done its part of a gather may leave.
      {"gather root 0 f32[4]", 0, Page::final, 7, 7, 6, not_called, {1}, false},
      {"gather root 0 f32[4]", 0, Page::exact, 7, 7, 6, not_called, {1}, false},
      // PyTorch has not marked its part as finished yet.
      {"gather root 0 f32[4]", 0, Page::final, 7, 6, 6, not_called, {1}, false},
      {"gather root 0 f32[4]", 0, Page::final, 7, 6, 7, ended, {2}, true},
      // The reader saw it long before its end.
      {"gather root 0 f32[4]", 0, Page::sampled, 4, 4, 6, not_called, {1}, false},
      {"gather root 0 f32[4]", 0, Page::sampled, 4, 4, 7, ended, {2}, true},
      {"all_reduce f32[8]", -1, Page::sampled, 4, 4, 7, ended, {2}, true},
      // It never called what needs all ranks, or the root.
      {"all_reduce f32[8]", -1, Page::final, 6, 6, 6, ended, {2}, false},
      {"all_reduce f32[8]", -1, Page::exact, 6, 6, 6, ended, {2}, false},
      {"all_reduce f32[8]", -1, Page::exact, 7, 6, 7, ended, {2}, false},
      {"gather root 0 f32[4]", 0, Page::final, 6, 6, 6, ended, {2}, false},
      {"broadcast root 2 f32[4]", 2, Page::exact, 6, 6, 6, ended, {2}, false},
      // Rank 0 waits for the root, which is late. The end of rank 2 is not what it waits for.
      {"broadcast root 1 f32[4]", 1, Page::exact, 6, 6, 6, not_called, {1, 2}, false},
      // The root is unknown, but all others have called.
      {"broadcast f32[4]", -1, Page::final, 6, 6, 6, not_called, {1, 2}, false},
      {"broadcast f32[4]", -1, Page::final, 6, 6, 7, ended, {2}, false},
  };
  for (const Row& row : rows) {
    CAPTURE(row.call, static_cast<int>(row.page), row.called, row.late_called);
    Ranks ranks(3);
    ranks.at(0, 7, 6).at(1, row.late_called, 6).at(2, row.called, row.finished);
    for (RankView& view : ranks.views) {
      view.page.groups[0].is_sampled = row.page != Page::exact;
      for (CallView& call : view.calls[0]) {
        call.what = row.call;
        call.root = row.root;
      }
    }
    ranks.views[2].has_ended = true;
    ranks.views[2].page.groups[0].is_final = row.page == Page::final;
    const auto verdict = ranks.verdict();
    REQUIRE(verdict);
    CHECK(verdict->kind == row.kind);
    CHECK(verdict->culprits == row.culprits);
    CHECK(verdict->is_doubtful == row.is_doubtful);
  }
}

TEST_CASE("a rank in another PyTorch world is not missing") {
  Ranks ranks(2);
  ranks.at(0, 7, 6).at(1, 7, 6);
  for (int rank : {0, 1}) {
    GroupView& group = ranks.views[static_cast<std::size_t>(rank)].page.groups[0];
    group.is_sampled = true;
    group.identity = static_cast<std::uint64_t>(rank) + 1;
  }
  for (const Verdict& verdict : find_verdicts(ranks.views)) {
    CHECK(verdict.is_partial);
    CHECK(verdict.culprits.empty());
  }
}

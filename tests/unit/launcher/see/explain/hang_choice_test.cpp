#include "launcher/see/explain/hang_choice.h"

#include <string>

#include "support/catch.h"

using namespace ddp::launcher;

namespace {

HangFinding hang(std::string group, std::vector<int> culprits, std::vector<int> waiting,
                 HangKind kind = HangKind::not_called) {
  HangFinding finding;
  finding.kind = kind;
  finding.group = std::move(group);
  finding.culprits = std::move(culprits);
  finding.waiting = std::move(waiting);
  return finding;
}

}  // namespace

TEST_CASE("the hang at the end of a chain of waiting groups is chosen") {
  const HangFinding found = choose_hang({hang("a", {1}, {0}), hang("b", {2}, {1}), hang("c", {3}, {2})});
  CHECK(found.group == "c");
  CHECK(found.waits.size() == 2);
  CHECK(found.others.empty());
}

TEST_CASE("a culprit that waits in no group stays the culprit") {
  const HangFinding found = choose_hang({hang("a", {1, 2}, {0}), hang("b", {5}, {2})});
  CHECK(found.group == "a");
  CHECK(found.culprits == std::vector{1});  // rank 2 waits for rank 5
  REQUIRE(found.others.size() == 1);
  CHECK(found.others[0].culprits == std::vector{5});
}

TEST_CASE("a decided hang is chosen before an undecided one") {
  const HangFinding found = choose_hang({hang("a", {}, {0}, HangKind::cannot_be_decided), hang("b", {3}, {2}),
                                         hang("c", {}, {4, 5}, HangKind::all_called)});
  CHECK(found.group == "b");
  CHECK(found.others.size() == 2);
}

TEST_CASE("a chain of waiting groups may end in an undecided hang") {
  const HangFinding found = choose_hang({hang("a", {1}, {0}), hang("b", {}, {1}, HangKind::cannot_be_decided)});
  CHECK(found.kind == HangKind::cannot_be_decided);
  CHECK(found.waits.size() == 1);
}

TEST_CASE("a circle of waiting groups has no culprit") {
  const HangFinding found = choose_hang({hang("a", {1}, {0}), hang("b", {0}, {1})});
  CHECK(found.kind == HangKind::circular_wait);
  CHECK(found.waiting == std::vector{0, 1});
  CHECK(found.waits.size() == 2);
}

TEST_CASE("ranks within a group are not confused with ranks of the job") {
  HangFinding own = hang("a", {1}, {0});
  own.has_ranks_of_group = true;
  const HangFinding found = choose_hang({own, hang("b", {0}, {1})});
  CHECK(found.kind == HangKind::not_called);
  CHECK(found.others.size() == 1);
}

TEST_CASE("a rank whose GPU has not started a call may wait in another group") {
  HangFinding open = hang("a", {}, {0, 1}, HangKind::all_called);
  open.not_started = {1};
  const HangFinding found = choose_hang({open, hang("b", {3}, {1})});
  CHECK(found.group == "b");
  CHECK(found.waits.size() == 1);
}

#include "launcher/see/explain/hang_records.h"

#include <numeric>
#include <string>

#include "launcher/see/explain/hang_groups.h"
#include "support/catch.h"

using namespace ddp::launcher;

namespace {

RecordedCall call(std::int64_t number, std::string operation, CallState state, std::int64_t numel = 8) {
  RecordedCall one;
  one.number = number;
  one.operation = std::move(operation);
  one.state = state;
  one.numel_in = numel;
  one.type = "Float";
  one.is_p2p = one.operation.find(' ') != std::string::npos;
  return one;
}

// A dump of a rank that has ended `ended` calls of all_reduce in the group, and then made the others.
CollectiveRecords dump(int rank, std::string group, int ended, std::vector<RecordedCall> others = {},
                       std::vector<int> members = {}) {
  CollectiveRecords one;
  one.rank = rank;
  one.group = std::move(group);
  one.description = one.group == "0" ? "default_pg" : "";
  one.is_dump = true;
  one.has_all_calls = true;
  one.last_enqueued = one.last_completed = ended;
  for (int i = 1; i <= ended; ++i) one.calls.push_back(call(i, "all_reduce", CallState::completed));
  for (RecordedCall& other : others) {
    if (!other.is_p2p) one.last_enqueued = other.number;
    one.calls.push_back(std::move(other));
  }
  one.members = std::move(members);
  return one;
}

CollectiveRecords line(int rank, std::int64_t enqueued, std::int64_t completed, std::string group = "0") {
  CollectiveRecords one;
  one.rank = rank;
  one.group = std::move(group);
  one.last_enqueued = enqueued;
  one.last_completed = completed;
  return one;
}

const RecordedCall kWaits = call(5, "all_reduce", CallState::started);

HangFinding hang(std::string group, std::vector<int> culprits, std::vector<int> waiting,
                 HangKind kind = HangKind::not_called) {
  HangFinding finding;
  finding.kind = kind;
  finding.group = std::move(group);
  finding.culprits = std::move(culprits);
  finding.waiting = std::move(waiting);
  return finding;
}

HangMember member_with(std::vector<RecordedCall> calls) {
  HangMember one;
  one.is_dump = true;
  one.has_all_calls = true;
  one.calls = std::move(calls);
  return one;
}

RecordedCall p2p(std::string operation, CallState state) {
  RecordedCall call;
  call.operation = std::move(operation);
  call.state = state;
  call.is_p2p = true;
  return call;
}

// Ranks 4 and 6 of the job.
HangGroup pair(std::vector<RecordedCall> of_4, std::vector<RecordedCall> of_6) {
  HangGroup group;
  group.name = "3";
  group.ranks = group.ranks_of_the_job = {4, 6};
  group.members[4] = member_with(std::move(of_4));
  group.members[6] = member_with(std::move(of_6));
  return group;
}

std::optional<HangFinding> judge(const HangGroup& group, int rank) {
  return judge_p2p(group, rank, group.members.at(rank));
}

constexpr CallState kDone = CallState::completed;
constexpr CallState kOpen = CallState::started;

}  // namespace

TEST_CASE("the rank that has not called the collective in which others wait is the culprit") {
  const std::vector records = {dump(0, "0", 4, {kWaits}), dump(1, "0", 4), dump(2, "0", 4, {kWaits}),
                               dump(3, "0", 4, {kWaits})};
  const HangFinding finding = judge_hang(records, 4);
  CHECK(finding.kind == HangKind::not_called);
  CHECK(finding.culprits == std::vector{1});
  CHECK(finding.waiting == std::vector{0, 2, 3});
  CHECK(hang_text(finding) ==
        "rank 1 has not called all_reduce #5 (NumelIn 8) of group 0 (default_pg), in which ranks 0, 2, 3 wait");
}

TEST_CASE("a rank without records is never blamed") {
  const std::vector records = {dump(0, "0", 4, {kWaits}), dump(2, "0", 4, {kWaits})};
  HangFinding finding = judge_hang(records, 4);
  CHECK(finding.kind == HangKind::cannot_be_decided);
  CHECK(finding.culprits.empty());
  CHECK(finding.missing == "the records of ranks 1, 3 of 4");
  CHECK(hang_text(finding) ==
        "ranks 0, 2 wait in all_reduce #5 (NumelIn 8) of group 0 (default_pg), but it cannot be "
        "decided why: what is missing is the records of ranks 1, 3 of 4");
  finding = judge_hang(records, std::nullopt);
  CHECK(finding.missing == "the records of rank 1, and how many ranks the group has");
}

TEST_CASE("a rank that certainly has not called is named even if other records are missing") {
  const std::vector records = {dump(0, "0", 4, {kWaits}), dump(1, "0", 4)};
  const HangFinding finding = judge_hang(records, 3);
  CHECK(finding.kind == HangKind::not_called);
  CHECK(hang_text(finding).ends_with("in which rank 0 waits; the records of rank 2 of 3 are missing"));
}

TEST_CASE("the transport is at fault if all ranks have called the collective") {
  const std::vector records = {dump(0, "0", 4, {kWaits}), dump(1, "0", 4, {kWaits})};
  CHECK(judge_hang(records, 2).kind == HangKind::all_called);
  CHECK(judge_hang(records, std::nullopt).kind == HangKind::cannot_be_decided);
  const HangFinding finding =
      judge_hang({{dump(0, "0", 4, {kWaits}), dump(1, "0", 4, {call(5, "all_reduce", CallState::enqueued)})}}, 2);
  CHECK(finding.not_started == std::vector{1});
  CHECK(hang_text(finding).ends_with("but it does not end on ranks 0, 1: the GPU of rank 1 has not started it"));
}

TEST_CASE("different calls with the same sequence number are a mismatch") {
  const RecordedCall other = call(5, "broadcast", CallState::started);
  std::vector records = {dump(0, "0", 4, {kWaits}), dump(1, "0", 4, {other}), dump(2, "0", 4, {kWaits})};
  HangFinding finding = judge_hang(records, 3);
  CHECK(finding.kind == HangKind::mismatch);
  CHECK(finding.culprits == std::vector{1});
  CHECK(hang_text(finding) ==
        "the ranks of group 0 (default_pg) differ in call #5: ranks 0, 2 called all_reduce (NumelIn 8) of "
        "Float, rank 1 called broadcast (NumelIn 8)");
  records.pop_back();
  finding = judge_hang(records, 2);
  CHECK(finding.kind == HangKind::mismatch);
  CHECK(finding.culprits.empty());  // there is no majority
  records[1].calls.back() = call(5, "all_reduce", CallState::started, 9);
  CHECK(judge_hang(records, 2).kind == HangKind::mismatch);
  records[1].calls.back() = call(5, "all_gather", CallState::started, 9);
  records[0].calls.back() = call(5, "all_gather", CallState::started, 8);
  CHECK(judge_hang(records, 2).kind == HangKind::all_called);  // its sizes may differ
}

TEST_CASE("sequence numbers in log lines are enough to find the culprit") {
  const std::vector records = {line(0, 6, 4), line(1, 4, 4), line(2, 6, 4)};
  const HangFinding finding = judge_hang(records, 3);
  CHECK(finding.kind == HangKind::not_called);
  CHECK(finding.culprits == std::vector{1});
  CHECK(finding.call.number == 5);
}

TEST_CASE("contradicting sequence numbers give no verdict") {
  const std::vector records = {line(0, 60, 58), line(1, 4, 4)};
  const HangFinding finding = judge_hang(records, 2);
  CHECK(finding.kind == HangKind::cannot_be_decided);
  CHECK(finding.culprits.empty());
  std::vector mixed = {line(0, 6, 4), line(1, 4, 4)};
  mixed[0].has_mixed_numbers = true;
  CHECK(judge_hang(mixed, 2).kind == HangKind::cannot_be_decided);
}

TEST_CASE("a failed Gloo call does not count as completed") {
  const RecordedCall failed = call(5, "all_reduce", CallState::ended);
  CHECK(judge_hang({{dump(0, "0", 4, {failed}), dump(1, "0", 4)}}, 2).culprits == std::vector{1});
  const RecordedCall sent = call(5, "broadcast", CallState::ended);
  CHECK(judge_hang({{dump(0, "0", 4, {sent}), dump(1, "0", 4)}}, 2).kind == HangKind::none);
}

TEST_CASE("a rank with an older dump is not blamed") {
  std::vector records = {dump(0, "0", 7, {call(8, "all_reduce", CallState::started)}), dump(1, "0", 5),
                         dump(2, "0", 7, {call(8, "all_reduce", CallState::started)})};
  const HangFinding finding = judge_hang(records, 3);
  CHECK(finding.kind == HangKind::cannot_be_decided);
  CHECK(finding.missing == "newer records of rank 1");
  records[1] = dump(1, "0", 7);
  CHECK(judge_hang(records, 3).culprits == std::vector{1});
}

TEST_CASE("a rank that waits in another group is not the culprit") {
  const std::vector records = {dump(0, "0", 4, {kWaits}), dump(1, "0", 4), dump(2, "0", 4),
                               dump(1, "3", 4, {kWaits}, {1, 2}), dump(2, "3", 4, {}, {1, 2})};
  const HangFinding finding = judge_hang(records, 3);
  CHECK(finding.culprits == std::vector{2});
  const std::vector chain = {dump(0, "1", 4, {kWaits}, {0, 1}), dump(1, "1", 4, {}, {0, 1}),
                             dump(1, "2", 4, {kWaits}, {1, 2}), dump(2, "2", 4, {}, {1, 2})};
  const HangFinding root = judge_hang(chain, 3);
  CHECK(root.group == "2");
  CHECK(root.culprits == std::vector{2});
  REQUIRE(root.waits.size() == 1);
  CHECK(hang_text(root) ==
        "rank 2 has not called all_reduce #5 (NumelIn 8) of group 2, in which rank 1 waits; because of that, "
        "rank 0 waits in all_reduce #5 (NumelIn 8) of group 1");
}

TEST_CASE("ranks that wait for each other are reported as a circle") {
  const std::vector records = {dump(0, "1", 4, {kWaits}, {0, 1}), dump(1, "1", 4, {}, {0, 1}),
                               dump(0, "2", 4, {}, {0, 1}), dump(1, "2", 4, {kWaits}, {0, 1})};
  const HangFinding finding = judge_hang(records, 2);
  CHECK(finding.kind == HangKind::circular_wait);
  CHECK(hang_text(finding).starts_with("ranks 0, 1 wait for each other: rank 1 has not called all_reduce #5"));
}

TEST_CASE("a receive without its send names the sender") {
  const RecordedCall receive = call(1, "recv 1<-0", CallState::started);
  const RecordedCall send = call(1, "send 0->1", CallState::started);
  HangFinding finding = judge_hang({{dump(4, "3", 0, {}, {4, 6}), dump(6, "3", 0, {receive}, {4, 6})}}, 8);
  CHECK(finding.kind == HangKind::not_called);
  CHECK(finding.culprits == std::vector{4});
  CHECK(finding.call.operation == "send 0->1");
  finding = judge_hang({{dump(4, "3", 0, {send}, {4, 6}), dump(6, "3", 0, {receive}, {4, 6})}}, 8);
  CHECK(finding.kind == HangKind::all_called);
  finding = judge_hang({{dump(6, "3", 0, {receive}, {4, 6})}}, 8);
  CHECK(finding.kind == HangKind::cannot_be_decided);
}

TEST_CASE("log lines without a process group give no verdict") {
  std::vector records = {line(0, 5, 4, ""), line(1, 5, 4, "")};
  for (CollectiveRecords& one : records) {
    one.last_completed.reset();
    one.calls = {call(5, "all_reduce", CallState::timed_out)};
  }
  const HangFinding finding = judge_hang(records, 2);
  CHECK(finding.kind == HangKind::cannot_be_decided);
  CHECK(hang_text(finding) ==
        "ranks 0, 1 wait in all_reduce #5 (NumelIn 8) of an unnamed process group, but it cannot be decided "
        "why: what is missing is the process group, which the lines do not name");
}

TEST_CASE("records without a pending call give no hang") {
  CHECK(judge_hang({}, 4).kind == HangKind::none);
  CHECK(judge_hang({{dump(0, "0", 4), dump(1, "0", 4)}}, 2).kind == HangKind::none);
  CHECK(hang_text({}).empty());
}

TEST_CASE("a hang of many ranks is judged quickly") {
  std::vector<int> members(1000);
  std::iota(members.begin(), members.end(), 0);
  std::vector<CollectiveRecords> records;
  for (const int rank : members) {
    records.push_back(rank == 700 ? dump(rank, "0", 50, {}, members)
                                  : dump(rank, "0", 50, {call(51, "all_reduce", CallState::started)}, members));
  }
  CHECK(judge_hang(records, 1000).culprits == std::vector{700});
}

TEST_CASE("the hang at the end of a chain of waiting groups is chosen") {
  const HangFinding found = choose_hang({hang("a", {1}, {0}), hang("b", {2}, {1}), hang("c", {3}, {2})});
  CHECK(found.group == "c");
  CHECK(found.waits.size() == 2);
}

TEST_CASE("a culprit that waits in no group stays the culprit") {
  const HangFinding found = choose_hang({hang("a", {1, 2}, {0}), hang("b", {5}, {2})});
  CHECK(found.group == "a");
  CHECK(found.culprits == std::vector{1});  // rank 2 waits for rank 5
}

TEST_CASE("a decided hang is chosen before an undecided one") {
  const HangFinding found = choose_hang({hang("a", {}, {0}, HangKind::cannot_be_decided), hang("b", {3}, {2}),
                                         hang("c", {}, {4, 5}, HangKind::all_called)});
  CHECK(found.group == "b");
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
}

TEST_CASE("a rank whose GPU has not started a call may wait in another group") {
  HangFinding open = hang("a", {}, {0, 1}, HangKind::all_called);
  open.not_started = {1};
  const HangFinding found = choose_hang({open, hang("b", {3}, {1})});
  CHECK(found.group == "b");
  CHECK(found.waits.size() == 1);
}

TEST_CASE("the rank that has not sent is named as the culprit") {
  const HangGroup group = pair({p2p("send 0->1", kDone)}, {p2p("recv 1<-0", kDone), p2p("recv 1<-0", kOpen)});
  const auto finding = judge(group, 6);
  REQUIRE(finding.has_value());
  CHECK(finding->kind == HangKind::not_called);
  CHECK(finding->culprits == std::vector{4});
  CHECK(finding->call.operation == "send 0->1");
  CHECK(finding->call.number == 2);
  CHECK_FALSE(judge(group, 4).has_value());  // it waits for nothing
}

TEST_CASE("a send that waits for its receive names the receiver") {
  const auto finding = judge(pair({p2p("send 0->1", kOpen)}, {p2p("recv 1<-5", kDone)}), 4);
  REQUIRE(finding.has_value());
  CHECK(finding->kind == HangKind::not_called);
  CHECK(finding->culprits == std::vector{6});
}

TEST_CASE("a transfer that both sides have called names no culprit") {
  const auto finding = judge(pair({p2p("send 0->1", kOpen)}, {p2p("recv 1<-0", kOpen)}), 6);
  REQUIRE(finding.has_value());
  CHECK(finding->kind == HangKind::all_called);
}

TEST_CASE("overwritten records make transfers impossible to count") {
  HangGroup group = pair({}, {p2p("recv 1<-0", kOpen)});
  group.members[4].has_all_calls = false;
  CHECK(judge(group, 6)->kind == HangKind::cannot_be_decided);
  group.members.erase(4);
  CHECK(judge(group, 6)->missing == "the records of rank 4");
  group.ranks_of_the_job.clear();
  CHECK(judge(group, 6)->missing == "the ranks of the group");
}

TEST_CASE("names of other operations are not point-to-point calls") {
  for (const std::string name : {"coalesced", "send ", "send 1", "recv a<-b", "send 1->", "recv 1->0"}) {
    CHECK_FALSE(judge(pair({}, {p2p(name, kOpen)}), 6).has_value());
  }
}

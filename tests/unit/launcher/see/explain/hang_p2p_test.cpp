#include "launcher/see/explain/hang_p2p.h"

#include <string>

#include "support/catch.h"

using namespace ddp::launcher;

namespace {

HangMember member(std::vector<RecordedCall> calls) {
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
  group.members[4] = member(std::move(of_4));
  group.members[6] = member(std::move(of_6));
  return group;
}

std::optional<HangFinding> judge(const HangGroup& group, int rank) {
  return judge_p2p(group, rank, group.members.at(rank));
}

constexpr CallState kDone = CallState::completed;
constexpr CallState kOpen = CallState::started;

}  // namespace

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

#include "launcher/run/watchdog/evidence/ras_status.h"

#include <string>
#include <vector>

#include "base/file.h"
#include "launcher/run/ranks/launches.h"
#include "launcher/run/ranks/root_causes.h"
#include "support/catch.h"
#include "support/paths.h"

using namespace ddp::launcher;

namespace {

// What NCCL 2.28.9 answered on an H200, while rank 1 (pid 825) did not call.
std::string recorded() {
  return ddp::base::read_file(ddp::test::source_directory() + "/tests/recorded/nccl_ras_skip.json");
}

RasStatus status_of(const std::string& json) {
  auto status = read_ras_status(json);
  REQUIRE(status);
  return std::move(status).value();
}

std::vector<RankView> ranks_with(const std::vector<pid_t>& pids) {
  std::vector<RankView> ranks(pids.size());
  for (std::size_t i = 0; i < pids.size(); ++i) {
    ranks[i].rank = static_cast<int>(i);
    ranks[i].pid = pids[i];
  }
  return ranks;
}

std::vector<Verdict> verdicts(std::vector<RankView> ranks) {
  complete_launches(ranks, {});
  return find_verdicts(ranks);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

}  // namespace

TEST_CASE("the RAS status of NCCL 2.28.9 contains the launch counts of each rank") {
  const RasStatus status = status_of(recorded());
  REQUIRE(status.size() == 1);
  CHECK(status[0].hash == 0x764630317c048e16);
  CHECK(status[0].size == 2);
  REQUIRE(status[0].members.size() == 2);
  CHECK((status[0].members[0].rank == 0 && status[0].members[0].pid == 824));
  CHECK(status[0].members[0].launched.at("AllReduce") == 8);
  CHECK(status[0].members[1].launched.at("AllReduce") == 6);
}

TEST_CASE("a rank that has launched less than the others is named") {
  auto ranks = ranks_with({824, 825});
  REQUIRE(add_launches(status_of(recorded()), ranks));
  const auto found = verdicts(ranks);
  REQUIRE(found.size() == 1);
  CHECK(found[0].kind == VerdictKind::not_called);
  CHECK(found[0].culprits == std::vector{1});
  CHECK(found[0].waiting == std::vector{0});
  CHECK(found[0].group == "ranks 0, 1");
}

TEST_CASE("the RAS counts of an exited rank never prove anything") {
  auto ranks = ranks_with({824, 825});
  ranks[1].has_ended = true;
  REQUIRE(add_launches(status_of(recorded()), ranks));
  const auto found = verdicts(ranks);
  REQUIRE(found.size() == 1);
  CHECK(found[0].is_doubtful);
}

TEST_CASE("equal counts and counts of broadcasts prove nothing") {
  auto ranks = ranks_with({824, 825});
  REQUIRE(add_launches(status_of(replaced(recorded(), "\"AllReduce\": 6", "\"AllReduce\": 8")), ranks));
  CHECK(verdicts(ranks).empty());
  auto roots = ranks_with({824, 825});
  REQUIRE(add_launches(status_of(replaced(recorded(), "AllReduce", "Broadcast_")), roots));
  CHECK(verdicts(roots).empty());
}

TEST_CASE("commas that are missing in NCCL's JSON are inserted") {
  const std::string broken =
      replaced(replaced(recorded(), "\"pid\": 824,", "\"pid\": 824"), "},\n        {", "}\n        {");
  CHECK(broken != recorded());
  CHECK(status_of(broken) == status_of(recorded()));
}

TEST_CASE("the JSON object of the counts may have another name") {
  CHECK(status_of(replaced(recorded(), "collective_counts", "operation_counts")) == status_of(recorded()));
}

TEST_CASE("members that leave their communicator are not reported as missing from it") {
  const RasStatus status = status_of(replaced(recorded(), "\"finalize_called\": false", "\"finalize_called\": true"));
  REQUIRE(status.size() == 1);
  CHECK(status[0].members.empty());
}

TEST_CASE("a member that does not answer keeps its counts") {
  const RasStatus before = status_of(recorded());
  RasStatus now = before;
  now[0].members.pop_back();
  keep_what_is_left_out(before, now);
  CHECK(now[0].members == before[0].members);
  CHECK(now[0].is_still);
  RasStatus other = before;
  other[0].hash = 1;
  other[0].members.clear();
  keep_what_is_left_out(before, other);
  CHECK(other[0].members.empty());
}

TEST_CASE("invalid communicators and members in a RAS status are ignored, and a truncated status is refused") {
  CHECK_FALSE(read_ras_status(""));
  CHECK(status_of("NCCL version 2.27").empty());
  CHECK_FALSE(read_ras_status("[1, 2"));
  CHECK(status_of("{}").empty());
  for (const char* text :
       {R"({"communicators": 5})", R"({"communicators": [5, null, {}, {"hash": 3, "size": 2, "ranks": []}]})",
        R"({"communicators": [{"hash": "0x0", "size": 2, "ranks": []}]})",
        R"({"communicators": [{"hash": "0x1", "size": 1, "ranks": []}]})",
        R"({"communicators": [{"hash": "0x1", "size": 99999999999, "ranks": []}]})"}) {
    CHECK(status_of(text).empty());
  }
  const RasStatus odd = status_of(
      R"({"communicators": [{"hash": "0x1", "size": 2, "ranks": [7, {"rank": -1, "pid": 1}, {"rank": 5, "pid": 1},
          {"rank": 0, "pid": -3}, {"rank": 0}, {"rank": 1, "pid": 4, "collective_counts": {"AllReduce": -2, "x": "y"}}]}]})");
  REQUIRE(odd.size() == 1);
  REQUIRE(odd[0].members.size() == 1);
  CHECK(odd[0].members[0].launched.empty());
  const std::string whole = recorded();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const bool is_read = read_ras_status(whole.substr(0, length)).ok();
    CHECK(is_read == (length > whole.rfind('}')));
  }
}

TEST_CASE("only ranks with a unique pid and no other records are shown from RAS") {
  const RasStatus status = status_of(recorded());
  auto twice = ranks_with({824, 824, 825});
  CHECK(add_launches(status, twice));
  CHECK(twice[0].page.groups.empty());
  CHECK(twice[1].page.groups.empty());
  CHECK(twice[2].page.groups.size() == 1);
  auto known = ranks_with({824, 825});
  known[0].page.groups.emplace_back();
  known[1].page.worlds_entered = 1;
  CHECK_FALSE(add_launches(status, known));
  CHECK_FALSE(has_unknown_rank(known));
  known[1].page.worlds_entered = 0;
  CHECK(has_unknown_rank(known));
  known[1].has_ended = true;
  CHECK_FALSE(has_unknown_rank(known));
}

TEST_CASE("ranks of several nodes with equal pids in containers are distinguished") {
  const auto member = [](int rank, pid_t pid, const char* host) {
    return RasMember{rank, pid, {{"AllReduce", 8}}, host};
  };
  std::vector<RankView> ranks = ranks_with({20, 21, 20, 21});
  for (int i = 0; i < 4; ++i) ranks[static_cast<std::size_t>(i)].node = i < 2 ? "a" : "b";
  const std::vector<RasMember> all = {member(0, 20, "10.0.0.1"), member(1, 21, "10.0.0.1"), member(2, 20, "10.0.0.2"),
                                      member(3, 21, "10.0.0.2")};
  // Their numbers in the communicator of all ranks show which host is which node, and so those of smaller ones.
  const RasStatus status = {{1, 4, all}, {2, 2, {member(0, 20, "10.0.0.1"), member(1, 20, "10.0.0.2")}}};
  CHECK(add_launches(status, ranks));
  CHECK(ranks[0].page.groups.size() == 2);
  CHECK(ranks[1].page.groups.size() == 1);
  REQUIRE(ranks[2].page.groups.size() == 2);
  CHECK(ranks[2].page.groups[0].rank == 2);
  CHECK(ranks[2].page.groups[1].rank == 1);
  // Without the communicator of all ranks, nothing tells them apart.
  std::vector<RankView> unknown = ranks_with({20, 21, 20, 21});
  CHECK_FALSE(add_launches({status[1]}, unknown));
  // A rank whose node is not known yet is not taken for another one.
  std::vector<RankView> half = ranks_with({20, 21});
  CHECK_FALSE(add_launches({status[0]}, half));
}

TEST_CASE("members that have called different functions are named if the counts do not change") {
  const auto status_with = [](std::uint64_t gathers_of_1) {
    RasCommunicator communicator{1, 3, {}};
    for (int rank = 0; rank < 3; ++rank) {
      const std::uint64_t gathers = rank == 1 ? gathers_of_1 : 0;
      communicator.members.push_back({rank, 20 + rank, {{"AllReduce", 8 - gathers}, {"AllGather", gathers}}});
    }
    return RasStatus{communicator};
  };
  const auto found_in = [](const RasStatus& status) {
    std::vector<RankView> ranks = ranks_with({20, 21, 22});
    add_launches(status, ranks);
    complete_launches(ranks, differences_of(ranks, true, {}));
    return find_verdicts(ranks);
  };
  RasStatus now = status_with(1);
  CHECK(found_in(now).empty());  // RAS may have read rank 1 a moment later
  keep_what_is_left_out(status_with(0), now);
  CHECK(found_in(now).empty());
  keep_what_is_left_out(status_with(1), now);
  const auto found = found_in(now);
  REQUIRE(found.size() == 1);
  CHECK(found[0].kind == VerdictKind::different_call);
  CHECK(found[0].culprits == std::vector<int>{1});
  CHECK(found[0].sequence == 8);
  REQUIRE(found[0].sides.size() == 2);
  CHECK(found[0].sides[0].call.what == "all_reduce");
  CHECK(found[0].sides[1].call.what == "all_gather");
  RasStatus equal = status_with(0);
  keep_what_is_left_out(equal, equal);
  CHECK(found_in(equal).empty());
}

#include "launcher/see/explain/hang_groups.h"

#include <string>

#include "support/catch.h"

using namespace ddp::launcher;

namespace {

CollectiveRecords of(int rank, std::string group, std::int64_t enqueued) {
  CollectiveRecords one;
  one.rank = rank;
  one.group = std::move(group);
  one.last_enqueued = enqueued;
  return one;
}

}  // namespace

TEST_CASE("the default group contains all ranks of the job") {
  const std::vector records = {of(0, "0", 5), of(2, "0", 4)};
  const auto known = hang_groups(records, 4);
  REQUIRE(known.size() == 1);
  CHECK(known[0].ranks == std::vector{0, 1, 2, 3});
  CHECK(known[0].knows_all_ranks);
  CHECK(known[0].members.size() == 2);
  const auto unknown = hang_groups(records, std::nullopt);
  CHECK(unknown[0].ranks == std::vector{0, 1, 2});  // rank 1 must exist
  CHECK_FALSE(unknown[0].knows_all_ranks);
}

TEST_CASE("an impossible rank does not enlarge a group") {
  const std::vector records = {of(0, "0", 5), of(9'000'000, "0", 4)};
  const auto groups = hang_groups(records, std::nullopt);
  CHECK(groups[0].ranks == std::vector{0, 9'000'000});
  CHECK_FALSE(groups[0].knows_all_ranks);
}

TEST_CASE("the members of another group are unknown unless a dump lists them") {
  std::vector records = {of(4, "7", 5), of(6, "7", 5)};
  CHECK_FALSE(hang_groups(records, 8)[0].knows_all_ranks);
  records[0].members = {4, 5, 6};
  const auto groups = hang_groups(records, 8);
  CHECK(groups[0].ranks == std::vector{4, 5, 6});
  CHECK(groups[0].knows_all_ranks);
}

TEST_CASE("ranks within a group are translated to ranks of the job if the records allow it") {
  std::vector records = {of(4, "7", 5), of(-1, "7", 3)};
  records[1].rank_of_group = 1;
  CHECK(hang_groups(records, 8)[0].has_own_ranks);
  records[0].members = {4, 6};
  const auto groups = hang_groups(records, 8);
  CHECK_FALSE(groups[0].has_own_ranks);
  CHECK(groups[0].members.at(6).last_enqueued == 3);
}

TEST_CASE("reports about groups without names are kept separate") {
  std::vector records = {of(-1, "", 5), of(-1, "", 5), of(0, "", 5)};
  records[0].report = 1;
  records[1].report = 2;
  for (CollectiveRecords& one : records) one.rank_of_group = 0;
  CHECK(hang_groups(records, 2).size() == 3);
}

TEST_CASE("a dump takes precedence over log lines") {
  std::vector records = {of(0, "0", 9), of(0, "0", 7), of(0, "0", 8)};
  records[1].is_dump = true;
  records[1].calls = {{.number = 7, .operation = "all_reduce", .state = CallState::started}};
  const auto groups = hang_groups(records, 1);
  CHECK(groups[0].members.at(0).last_enqueued == 7);
  CHECK(groups[0].members.at(0).pending() == 7);
}

TEST_CASE("a call is pending until it completes or fails") {
  HangMember member;
  CHECK_FALSE(member.pending().has_value());
  member.last_enqueued = 5;
  CHECK_FALSE(member.pending().has_value());
  member.last_completed = 3;
  CHECK(member.pending() == 4);
  member.calls = {{.number = 4, .state = CallState::completed}, {.number = 5, .state = CallState::started}};
  CHECK(member.pending() == 5);
  CHECK(member.call(5)->state == CallState::started);
  member.calls.push_back({.number = 5});
  CHECK(member.call(5) == nullptr);  // two were started together
}

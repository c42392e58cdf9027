#include "launcher/run/ranks/shown_records.h"

#include <random>

#include "launcher/limits.h"
#include "support/catch.h"
#include "support/random_seed.h"
#include "wire/limits.h"

using namespace ddp;
using namespace ddp::launcher;
using wire::RecordKind;

namespace {

Record collective(std::uint32_t number, std::uint16_t group = 1, std::uint16_t name = 1) {
  return {RecordKind::collective,      2,   group, name, number, 5'000'000'000'000U + number,
          5'000'000'000'500U + number, 4096};
}

RankRecords of_rank(int rank, std::uint32_t count) {
  RankRecords records;
  records.rank = rank;
  records.dropped = 3;
  records.groups = {{}, {UINT64_MAX - 1, "world", 8}};
  records.names = {"", "bucket 0"};
  for (std::uint32_t i = 0; i < count; ++i) records.records.push_back(collective(i));
  return records;
}

}  // namespace

TEST_CASE("records are unchanged after their transfer to the coordinator") {
  RankRecords rank = of_rank(3, 2);
  rank.records.push_back({RecordKind::step, 0, 0, 0, 9, 4'000'000'000'000U, 5'000'000'000'000U, 0});
  const ShownRecords shown{12, 13, 14, true, {rank, of_rank(4, 0)}};
  CHECK(read_records(show_records(shown)) == shown);
}

TEST_CASE("invalid text gives no records") {
  for (const char* text : {"", "[]", "{}", "nonsense", R"({"asked_at":1,"received_at":2,"answered_at":3,"is_last":false,
      "ranks":[{"rank":0,"dropped":0,"base":5,"groups":[[0,"",0]],"names":[""],"records":[2,0,1,0,0,0,5,0]}]})"}) {
    CHECK(read_records(text) == ShownRecords());
  }
  const std::string valid = show_records({1, 2, 3, false, {of_rank(3, 20)}});
  std::mt19937 random(ddp::test::random_seed());
  for (int round = 0; round < 2000; ++round) {
    std::string text = valid;
    for (int i = 0; i < 3; ++i) text[random() % text.size()] = static_cast<char>(random());
    for (const RankRecords& rank : read_records(text).ranks) {
      for (const Record& record : rank.records) {
        REQUIRE(record.group < rank.groups.size());
        REQUIRE(record.name < rank.names.size());
        REQUIRE(record.begin <= record.end);
      }
    }
  }
}

TEST_CASE("parts of a rank's records that arrive in several messages become one list") {
  RankRecords all;
  append_records(all, of_rank(3, 1));
  RankRecords more = of_rank(3, 1);
  more.groups = {{}, {5, "other", 2}, {UINT64_MAX - 1, "world", 8}};
  more.names = {"", "x", "bucket 0"};
  more.records = {collective(7, 1, 1), collective(8, 2, 2)};
  more.dropped = 9;
  append_records(all, more);
  CHECK(all.rank == 3);
  CHECK(all.dropped == 9);
  CHECK(all.groups == std::vector<RecordedGroup>{{}, {UINT64_MAX - 1, "world", 8}, {5, "other", 2}});
  CHECK(all.names == std::vector<std::string>{"", "bucket 0", "x"});
  CHECK(all.records == std::vector{collective(0), collective(7, 2, 2), collective(8, 1, 1)});
}

TEST_CASE("many records are divided into messages that a coordinator accepts") {
  const auto most = static_cast<std::uint32_t>(limits::kShownRecords);
  const ShownRecords shown{
      12, 13, 14, true, {of_rank(0, most - 1), of_rank(1, 2), of_rank(2, 0), of_rank(3, 2 * most)}};
  const auto messages = divide_records(shown);
  RankRecords third;
  std::size_t count = 0;
  for (const ShownRecords& message : messages) {
    std::size_t in_message = 0;
    for (const RankRecords& rank : message.ranks) {
      in_message += rank.records.size();
      if (rank.rank == 3) append_records(third, rank);
    }
    CHECK(in_message <= limits::kShownRecords);
    CHECK(show_records(message).size() < limits::kControlJsonBytes);
    CHECK(message.is_last == (&message == &messages.back()));
    CHECK((message.asked_at == 12) == (&message == &messages.front()));
    count += in_message;
  }
  CHECK(count == 3 * limits::kShownRecords + 1);
  CHECK(third == of_rank(3, 2 * most));
}

TEST_CASE("an answer without records is a message too") {
  CHECK(divide_records({12, 13, 14, false, {}}) == std::vector<ShownRecords>{{12, 13, 14, false, {}}});
}

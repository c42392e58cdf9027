#include "launcher/see/view/strip_text.h"

#include <vector>

#include "support/catch.h"

using namespace ddp::launcher;

namespace {

constexpr std::uint64_t kWidth = ShareColumns::kFirstWidth;

std::int8_t number(RankState state) {
  return static_cast<std::int8_t>(state);
}

}  // namespace

TEST_CASE("a strip is encoded as a short text that can be decoded") {
  ShareColumns columns(1, kRankStates, 100);
  const auto add = [&](RankState state, double end) {
    columns.add(std::vector{number(state)}, static_cast<std::uint64_t>(end * kWidth));
  };
  add(RankState::computing, 3);
  add(RankState::collective, 3.61);
  add(RankState::waiting, 4);
  add(RankState::ended, 6);
  columns.finish();
  const std::string text = strip_text(columns, 0);
  CHECK(text == "c*3 k6w4 e*2");
  const std::vector<StripColumn> read = read_strip(text, 100);
  REQUIRE(read.size() == 6);
  CHECK(read[0] == StripColumn{0, 10});
  CHECK(read[3] == StripColumn{0, 0, 6, 4});
  CHECK(read[5] == StripColumn{0, 0, 0, 0, 0, 0, 10});
}

TEST_CASE("a time without a state is unknown") {
  ShareColumns columns(1, kRankStates, 100);
  columns.add(std::vector{std::int8_t{ShareColumns::kNone}}, kWidth);
  CHECK(strip_text(columns, 0) == "u");
}

TEST_CASE("the shares of a row in tenths are encoded as a short text that can be decoded") {
  ShareColumns columns(1, 1, 100);
  columns.add(std::vector{std::int8_t{ShareColumns::kNone}}, 3 * kWidth);
  columns.add(std::vector{std::int8_t{0}}, 3 * kWidth + kWidth * 3 / 10);
  columns.add(std::vector{std::int8_t{ShareColumns::kNone}}, 4 * kWidth);
  columns.add(std::vector{std::int8_t{0}}, 5 * kWidth);
  CHECK(tenths_text(columns, 0) == "0*3 3 10");
  CHECK(read_tenths("0*3 3 10", 100) == std::vector<std::uint8_t>{0, 0, 0, 3, 10});
}

TEST_CASE("read_strip() reads invalid text as columns of unknown state and limits their number") {
  CHECK(read_strip("", 10).empty());
  CHECK(read_strip("c*1000000000", 10).size() == 1);  // an unreasonable count is one column
  CHECK(read_strip("c*100000", 10).size() == 10);
  const StripColumn unknown{10};
  for (const char* text : {"x", "c9", "c5k6", "cc", "c*-1*2", "\xff\xfe", "*", "c\n"}) {
    CAPTURE(text);
    for (const StripColumn& column : read_strip(text, 3)) CHECK((column == unknown || column == StripColumn{0, 10}));
  }
  CHECK(read_tenths("11 -1 x 4", 9) == std::vector<std::uint8_t>{0, 0, 0, 4});
}

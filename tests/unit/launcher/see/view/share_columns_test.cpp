#include "launcher/see/view/share_columns.h"

#include <vector>

#include "support/catch.h"

using ddp::launcher::ShareColumns;

namespace {

constexpr std::uint64_t kWidth = ShareColumns::kFirstWidth;
using Active = std::vector<std::int8_t>;

}  // namespace

TEST_CASE("a column stores the shares of its states") {
  ShareColumns columns(2, 3, 10);
  columns.add(Active{0, 1}, kWidth / 5);
  columns.add(Active{2, 1}, kWidth);
  columns.add(Active{ShareColumns::kNone, 0}, kWidth * 5 / 4);
  columns.finish();
  REQUIRE(columns.count() == 2);
  CHECK(columns.share(0, 0, 0) == 51);
  CHECK(columns.share(0, 0, 2) == 204);
  CHECK(columns.share(0, 1, 1) == 255);
  CHECK(columns.share(1, 0, 0) == 0);
  CHECK(columns.share(1, 1, 0) == 255);  // of the shorter time of the last column
  CHECK(columns.duration() == kWidth * 5 / 4);
}

TEST_CASE("neighbouring columns are merged when all are in use") {
  ShareColumns columns(1, 2, 4);
  for (std::uint64_t i = 0; i < 16; ++i) columns.add(Active{static_cast<std::int8_t>(i >= 12)}, (i + 1) * kWidth);
  columns.finish();
  CHECK(columns.width() == kWidth * 8);
  REQUIRE(columns.count() == 2);
  CHECK(columns.share(0, 0, 0) == 255);
  CHECK(columns.share(1, 0, 0) == 128);
  CHECK(columns.share(1, 0, 1) == 128);
  columns.halve();
  CHECK(columns.count() == 1);
  CHECK(columns.share(0, 0, 1) == 64);
}

TEST_CASE("a state that lasts for weeks needs few columns") {
  ShareColumns columns(1, 1, 4);
  columns.add(Active{0}, std::uint64_t{30} * 24 * 3600 * 1'000'000'000);
  columns.finish();
  CHECK(columns.count() <= 4);
  for (std::size_t i = 0; i < columns.count(); ++i) CHECK(columns.share(i, 0, 0) == 255);
}

TEST_CASE("invalid states and rows are ignored") {
  ShareColumns columns(1, 2, 4);
  columns.add(Active{9, 1, 1}, kWidth);
  CHECK(columns.share(0, 0, 0) + columns.share(0, 0, 1) == 0);
  ShareColumns none;
  none.add(Active{0}, kWidth);
  CHECK(none.count() == 0);
}

#include "launcher/run/output/line_tag.h"

#include <ctime>

#include "support/catch.h"

using namespace ddp::launcher;

namespace {

std::string tag_of(const std::string& format, int local_rank = 2) {
  LineTag tag(format, {"node1", "trainer"}, false);
  tag.set_rank(2, 10);
  return std::string(tag.of_rank(local_rank));
}

}  // namespace

TEST_CASE("a tag shows rank, local rank, node and role") {
  CHECK(tag_of("[${rank}] ") == "[10] ");
  CHECK(tag_of("${node}/${local_rank}: ") == "node1/2: ");
  CHECK(tag_of("[${role_name}${local_rank}]:") == "[trainer2]:");
  CHECK(tag_of("$role $rank|") == "trainer 10|");
  CHECK(tag_of("[${rank}] ", 3) == "[3] ");
}

TEST_CASE("unknown fields in a tag template are kept unchanged") {
  CHECK(tag_of("${nose} $") == "${nose} $");
  CHECK(tag_of("${rank") == "${rank");
  CHECK(tag_of("$$rank $5") == "$rank $5");
  CHECK(tag_of("") == "");
  CHECK(tag_of("${}x") == "${}x");
}

TEST_CASE("a merged line is tagged with all ranks that printed it") {
  LineTag tag("[${rank}|${local_rank}] ", {}, false);
  for (int local_rank = 0; local_rank < 4; ++local_rank) tag.set_rank(local_rank, 8 + local_rank);
  std::vector<std::uint64_t> bits = {0b1101};
  CHECK(tag.of_ranks(bits) == "[8,10-11|0,2-3] ");
  bits = {0b0011};
  CHECK(tag.of_ranks(bits) == "[8-9|0-1] ");
  bits = {std::uint64_t{1} << 63, 1};
  CHECK(ranks_of(bits) == std::vector<int>{63, 64});
}

TEST_CASE("a coloured tag resets its colour, and ranks have different colours") {
  LineTag tag("[${rank}] ", {}, true);
  const std::string zero(tag.of_rank(0));
  CHECK_THAT(zero, Catch::StartsWith("\x1b[") && Catch::EndsWith("[0] \x1b[0m"));
  CHECK(zero.substr(0, 5) != std::string(tag.of_rank(1)).substr(0, 5));
  CHECK(tag.plain(0) == "[0] ");
  CHECK(LineTag("", {}, true).of_rank(0) == "");
}

TEST_CASE("the time in a tag advances") {
  LineTag tag("${time} ", {}, false);
  std::tm day{};
  day.tm_year = 126;
  day.tm_mday = 3;
  day.tm_hour = 14;
  day.tm_min = 5;
  day.tm_isdst = -1;
  const auto time = std::chrono::system_clock::from_time_t(std::mktime(&day));
  tag.set_time(time);
  CHECK(tag.of_rank(0) == "14:05:00 ");
  tag.set_time(time + std::chrono::seconds(9));
  CHECK(tag.of_rank(0) == "14:05:09 ");
}

TEST_CASE("a tag shows the current name of the node") {
  LineTag tag("[${node}] ", {"vm", "trainer"}, false);
  CHECK(tag.of_rank(0) == "[vm] ");
  tag.set_node("vm#2");
  CHECK(tag.of_rank(0) == "[vm#2] ");
}

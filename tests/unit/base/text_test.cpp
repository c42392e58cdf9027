#include "base/text.h"

#include <limits>

#include "support/catch.h"

using namespace ddp::base;
using namespace std::chrono_literals;

namespace {
constexpr auto kLowest = std::numeric_limits<std::int64_t>::min();
constexpr auto kHighest = std::numeric_limits<std::int64_t>::max();

std::optional<std::int64_t> any_integer(std::string_view text) {
  return parse_integer(text, kLowest, kHighest);
}
}  // namespace

TEST_CASE("parsing an integer requires the whole text to be a number") {
  for (const char* text : {"", " 1", "1 ", "+1", "1x", "0x10", "1.0", "1e3", "-", "--1", "one", "1\n"}) {
    INFO("text '" << text << "'");
    CHECK_FALSE(any_integer(text));
  }
  CHECK_FALSE(any_integer(std::string_view("1\0", 2)));
  CHECK(any_integer("0") == 0);
  CHECK(any_integer("-7") == -7);
  CHECK(any_integer("007") == 7);
}

TEST_CASE("an integer outside its range is rejected") {
  CHECK_FALSE(parse_integer("0", 1, 65535));
  CHECK(parse_hex("7f62Ab") == 0x7f62ab);
  CHECK(parse_hex("ffffffffffffffff") == ~std::uint64_t{0});
  for (const char* text : {"", "0x1", "-1", "+1", " 1", "1 ", "g", "10000000000000000"}) CHECK_FALSE(parse_hex(text));
  CHECK_FALSE(parse_integer("65536", 1, 65535));
  CHECK(parse_integer("1", 1, 65535) == 1);
  CHECK(parse_integer("65535", 1, 65535) == 65535);
  CHECK(any_integer("9223372036854775807") == kHighest);
  CHECK(any_integer("-9223372036854775808") == kLowest);
  CHECK_FALSE(any_integer("9223372036854775808"));
  CHECK_FALSE(any_integer("-9223372036854775809"));
}

TEST_CASE("parsing a number rejects infinite, negative and partly numeric text") {
  for (const char* text : {"", "-1", "inf", "nan", "1e400", "1s", " 1", "0x1", ".", "+1"}) {
    INFO("text '" << text << "'");
    CHECK_FALSE(parse_number(text));
  }
  CHECK(parse_number("0") == 0.0);
  CHECK(parse_number("2.5") == 2.5);
  CHECK(parse_number("1e3") == 1000.0);
}

TEST_CASE("a nearest match is suggested only for a likely typing mistake") {
  const std::vector<std::string> names = {"gloo", "nccl", "mpi"};
  CHECK(nearest_match("glo", names) == "gloo");
  CHECK(nearest_match("ncl", names) == "nccl");
  CHECK(nearest_match("mpi", names) == "mpi");
  CHECK_FALSE(nearest_match("tensorflow", names));
  CHECK_FALSE(nearest_match("", names));
  CHECK_FALSE(nearest_match("x", names));
  CHECK_FALSE(nearest_match("foo", names));
  CHECK(nearest_match("golo", {{"gloo"}}) == "gloo");
  CHECK(nearest_match("gool", {{"gloo"}}) == std::nullopt);
  CHECK(nearest_match("tpo", {{"top"}}) == "top");
  CHECK(nearest_match("reprot", {{"report"}}) == "report");
  CHECK_FALSE(nearest_match("gloo", {}));
}

TEST_CASE("the first of two equally near matches is suggested") {
  const std::vector<std::string> names = {"--nodea", "--nodeb"};
  CHECK(nearest_match("--nodec", names) == "--nodea");
}

TEST_CASE("a one-letter word has only itself as its nearest match") {
  const std::vector<std::string> names = {"a"};
  CHECK_FALSE(nearest_match("b", names));
  CHECK(nearest_match("a", names) == "a");
}

TEST_CASE("split keeps empty parts") {
  CHECK(split("", ',') == std::vector<std::string>{""});
  CHECK(split("a,,b,", ',') == std::vector<std::string>{"a", "", "b", ""});
}

TEST_CASE("join reverses split") {
  for (const char* text : {"", "a", "a,b", ",a", "a,,b,", ",,"}) {
    INFO("text '" << text << "'");
    CHECK(join(split(text, ','), ",") == text);
  }
  CHECK(join({}, ", ").empty());
}

TEST_CASE("three or more consecutive ranks are printed as a range") {
  const auto list = [](std::vector<int> ranks) { return rank_list(ranks); };
  CHECK(list({}).empty());
  CHECK(list({4}) == "4");
  CHECK(list({0, 1}) == "0, 1");
  CHECK(list({0, 1, 2, 5}) == "0-2, 5");
  CHECK(list({0, 2, 3, 4, 8, 9}) == "0, 2-4, 8, 9");
}

TEST_CASE("ranks have a noun and a verb that fit their number") {
  using ddp::base::rank_clause;
  using ddp::base::ranks_text;
  CHECK(ranks_text({4}) == "rank 4");
  CHECK(ranks_text({0, 1, 2, 5}) == "ranks 0-2, 5");
  CHECK(ranks_text({4}, "waits", "wait") == "rank 4 waits");
  CHECK(ranks_text({0, 2}, "waits", "wait") == "ranks 0, 2 wait");
  CHECK(rank_clause("4", "waits", "wait") == "; rank 4 waits");
  CHECK(rank_clause("0,2", "waits", "wait") == "; ranks 0,2 wait");
  CHECK(rank_clause("0-5", "waits", "wait") == "; ranks 0-5 wait");
  CHECK(rank_clause("1-", "waits", "wait") == "; rank 1- waits");
  CHECK(rank_clause("", "waits", "wait").empty());
}

TEST_CASE("a duration is printed with the unit that fits its size") {
  CHECK(human_duration(0ms) == "0 ms");
  CHECK(human_duration(85ms) == "85 ms");
  CHECK(human_duration(99ms) == "99 ms");
  CHECK(human_duration(99700us) == "0.1 s");
  CHECK(human_duration(3200ms) == "3.2 s");
  CHECK(human_duration(59900ms) == "59.9 s");
  CHECK(human_duration(59960ms) == "1 min");
  CHECK(human_duration(192s) == "3 min 12 s");
  CHECK(human_duration(3599600ms) == "1 h");
  CHECK(human_duration(2h + 5min) == "2 h 5 min");
}

TEST_CASE("a count of one is printed in the singular and other counts in the plural") {
  CHECK(counted(0, "worker") == "0 workers");
  CHECK(counted(1, "worker") == "1 worker");
  CHECK(counted(2, "worker") == "2 workers");
  CHECK(counted(2, "process") == "2 processes");
  CHECK(counted(1, "line", "was", "were") == "1 line was");
  CHECK(counted(0, "line", "was", "were") == "0 lines were");
  CHECK(ddp::base::plural(1, "it", "them") == "it");
  CHECK(ddp::base::plural(std::size_t{2}, "it", "them") == "them");
}

TEST_CASE("a size is printed with the unit that fits") {
  CHECK(human_bytes(0) == "0 B");
  CHECK(human_bytes(1023) == "1023 B");
  CHECK(human_bytes(1536) == "1.5 KiB");
  CHECK(human_bytes(64 << 20) == "64 MiB");
  CHECK(human_bytes(std::uint64_t{3} << 40) == "3 TiB");
}

TEST_CASE("several texts are appended in their order") {
  std::vector<std::string> texts = {"a"};
  ddp::base::append(texts, std::vector<std::string>{"b", "c"});
  CHECK(texts == std::vector<std::string>{"a", "b", "c"});
}

TEST_CASE("words splits a text at spaces and tabs") {
  using ddp::base::words;
  CHECK(words("").empty());
  CHECK(words("  ").empty());
  CHECK(words("a") == std::vector<std::string>{"a"});
  CHECK(words("  a\tb   c ") == std::vector<std::string>{"a\tb", "c"});
  CHECK(words("a\t b\r", " \t\r") == std::vector<std::string>{"a", "b"});
}

TEST_CASE("trim removes spaces at both ends only") {
  using ddp::base::trimmed;
  CHECK(trimmed("").empty());
  CHECK(trimmed(" \t\r\n").empty());
  CHECK(trimmed("\ta b\r\n") == "a b");
  CHECK(trimmed(" a\t", " ") == "a\t");
}

TEST_CASE("take_line removes lines from a text one by one") {
  using ddp::base::take_line;
  std::string_view text = "one\n\ntwo";
  CHECK(take_line(text) == "one");
  CHECK(take_line(text).empty());
  CHECK(text == "two");
  CHECK(take_line(text) == "two");
  CHECK(text.empty());
  CHECK(take_line(text).empty());
}

TEST_CASE("a size is parsed with its unit, and other text is rejected") {
  CHECK(parse_bytes("0") == 0U);
  CHECK(parse_bytes("4096") == 4096U);
  CHECK(parse_bytes("7B") == 7U);
  CHECK(parse_bytes("3KiB") == 3072U);
  CHECK(parse_bytes("64 mib") == std::uint64_t{64} << 20);
  CHECK(parse_bytes("2GIB") == std::uint64_t{2} << 30);
  CHECK(parse_bytes("8388607TiB") == std::uint64_t{8'388'607} << 40);
  for (const char* text : {"", " ", "B", "MiB", "-1", "+1", "1.5GiB", "1 ", "1  MiB", " 1", "1MB", "1M", "1MiBs",
                           "0x10", "9223372036854775808", "8388608TiB", "99999999999999999999"}) {
    INFO(text);
    CHECK_FALSE(parse_bytes(text));
  }
}

TEST_CASE("a word is quoted for a shell only if it needs quotes") {
  CHECK(shell_quoted("--a=/b,c:d") == "--a=/b,c:d");
  CHECK(shell_quoted("") == "''");
  CHECK(shell_quoted("a b$") == "'a b$'");
  CHECK(shell_quoted("it's") == "'it'\\''s'");
}

TEST_CASE("a long list of ranks is shortened") {
  const auto list = [](std::vector<int> ranks) { return ddp::base::short_rank_list(ranks); };
  CHECK(list({}) == "");
  CHECK(list({3}) == "3");
  CHECK(list({0, 1, 2, 3, 4, 5, 6, 7}) == "0-7");
  CHECK(list({0, 2, 3}) == "0,2-3");
  CHECK(list({1, 3, 5}) == "1,3,5");
}

#include "launcher/run/output/stream_tail.h"

#include "support/catch.h"

using namespace ddp::launcher;
using Lines = std::vector<std::string>;

namespace {

Lines last(const std::string& text, std::size_t lines = 20, bool cut = false) {
  return last_lines_of(text, cut, lines, 40);
}

}  // namespace

TEST_CASE("a stream tail keeps the last bytes") {
  StreamTail tail(4);
  tail.add("abc");
  CHECK(tail.kept() == "abc");
  CHECK_FALSE(tail.cut());
  for (const char* chunk : {"def", "ghi", "jkl"}) tail.add(chunk);
  CHECK_THAT(std::string(tail.kept()), Catch::EndsWith("ijkl"));
  CHECK(tail.kept().size() <= 8);
  CHECK(tail.cut());
  tail.add("0123456789");
  CHECK(tail.kept() == "6789");
}

TEST_CASE("the last lines exclude blank lines and may lack a newline") {
  CHECK(last("a\n\n  \nb\nc") == Lines{"a", "b", "c"});
  CHECK(last("a\nb\nc\r\n", 2) == Lines{"b", "c"});
  CHECK(last("") == Lines{});
  CHECK(last("a\n", 0) == Lines{});
}

TEST_CASE("a first line whose beginning is missing is dropped") {
  CHECK(last("half\nb\n", 20, true) == Lines{"b"});
  CHECK(last("only half", 20, true) == Lines{"only half"});
}

TEST_CASE("only the last state of a progress bar counts as a line") {
  CHECK(last("10%\r20%\r30%\r\nx\n") == Lines{"30%", "x"});
  CHECK(last("\r10%\r20%") == Lines{"20%"});
}

TEST_CASE("control characters in the last lines are escaped") {
  CHECK(last("\x1b[31mred\x1b[0m\tx") == Lines{"red\tx"});
  CHECK(last(std::string("a\0b\x07", 4)) == Lines{"a\\x00b\\x07"});
  CHECK(last("\xff gr\xc3\xbc\xc3\x9f \xc3") == Lines{"\\xff gr\xc3\xbc\xc3\x9f \\xc3"});
  CHECK(last("\xc2\x9b") == Lines{"\\xc2\\x9b"});  // this C1 character means ESC [
  CHECK(last("\x1b]0;title\x07") == Lines{"\\x1b]0;title\\x07"});
}

TEST_CASE("a long last line is cut between characters") {
  const std::string line = last(std::string(38, 'x') + "\xc3\xbc\xc3\xbc")[0];
  CHECK(line == std::string(37, 'x') + "...");
  CHECK(last(std::string(40, 'x')) == Lines{std::string(40, 'x')});
}

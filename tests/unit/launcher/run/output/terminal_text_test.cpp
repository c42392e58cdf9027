#include "launcher/run/output/terminal_text.h"

#include "support/catch.h"

using namespace ddp::launcher;

TEST_CASE("the column after a text counts wide, combining and tab characters and ignores colours") {
  CHECK(column_after("loss", 0) == 4);
  CHECK(column_after("\x1b[31m[3]\x1b[0m x", 0) == 5);
  CHECK(column_after("日本", 1) == 5);
  CHECK(column_after("e\xcc\x81", 0) == 1);
  CHECK(column_after("ab\tc", 0) == 9);
  CHECK(column_after("\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", 0) == 4);
}

TEST_CASE("the column after a text is unknown if the text moves the cursor") {
  CHECK(column_after("\x1b[A", 0) == std::nullopt);
  CHECK(column_after("a\b", 0) == std::nullopt);
  CHECK(column_after("a\rb", 0) == std::nullopt);
  CHECK(column_after("\xff", 0) == std::nullopt);
  CHECK(column_after("\x1b[", 0) == std::nullopt);
}

TEST_CASE("a line is cut between characters and keeps its colours") {
  CHECK(fit_to_columns("step 12", 4) == "step");
  CHECK(fit_to_columns("日本語", 5) == "日本");
  CHECK(fit_to_columns("\x1b[1mbold\x1b[0m", 2) == "\x1b[1mbo\x1b[0m");
  CHECK(fit_to_columns("a\nb\x1b[2Jc\td", 10) == "abc d");
  CHECK(fit_to_columns("abc", 0).empty());
}

TEST_CASE("colours and line erasure do not move the cursor, and other sequences may") {
  CHECK_FALSE(moves_cursor("plain"));
  CHECK_FALSE(moves_cursor("\x1b[1;32mgreen\x1b[0m\x1b[K"));
  CHECK_FALSE(moves_cursor("\x1b]0;title\a"));
  CHECK(moves_cursor("x\x1b[1A"));
  CHECK(moves_cursor("\x1b[?1049h"));
  CHECK(
      moves_cursor("\x1b"
                   "7"));
  CHECK(moves_cursor("\x1b["));
}

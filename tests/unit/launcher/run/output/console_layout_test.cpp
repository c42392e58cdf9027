#include "launcher/run/output/console_layout.h"

#include "launcher/limits.h"
#include "support/catch.h"

using namespace ddp::launcher;

namespace {

class Screen {
 public:
  explicit Screen(bool terminal = false, const std::string& format = "[${rank}] ")
      : tag_(format, {}, false), layout_(tag_, terminal) {}

  Screen& line(int rank, const std::string& text) { return piece(rank, text, true, true); }
  Screen& piece(int rank, const std::string& text, bool begins, bool ends) {
    layout_.append({{text, begins, ends}, rank, rank, 1, {}}, out_);
    return *this;
  }
  Screen& line_of_both(const std::string& text) {
    layout_.append({{text, true, true}, 0, 0, 2, bits_}, out_);
    return *this;
  }
  Screen& own(const std::string& text) {
    layout_.append_own(text, out_);
    return *this;
  }
  Screen& finish() {
    layout_.finish(out_);
    return *this;
  }
  const std::string& text() const { return out_; }
  CursorPlace cursor() const { return layout_.cursor(); }
  bool has_moved_cursor() const { return layout_.has_moved_cursor(); }

 private:
  std::vector<std::uint64_t> bits_ = {0b11};
  LineTag tag_;
  ConsoleLayout layout_;
  std::string out_;
};

}  // namespace

TEST_CASE("each console line has its tag") {
  CHECK(Screen().line(0, "a\n").line(1, "b\r\n").line_of_both("c\n").text() == "[0] a\n[1] b\r\n[0-1] c\n");
  CHECK(Screen(false, "").line(0, "a\n").line(1, "\n").text() == "a\n\n");
}

TEST_CASE("a partial line is continued unless another line has come between") {
  CHECK(Screen().piece(0, "Name? ", true, false).piece(0, "Ada\n", false, true).text() == "[0] Name? Ada\n");
  CHECK(Screen().piece(0, "Na", true, false).line(1, "x\n").piece(0, "me\n", false, true).text() ==
        "[0] Na\n[1] x\n[0] ... me\n");
  CHECK(Screen().piece(0, "Na", true, false).line(1, "x\n").piece(0, "\n", false, true).line(0, "y\n").text() ==
        "[0] Na\n[1] x\n[0] y\n");
}

TEST_CASE("a progress bar is overwritten by its own rank only") {
  for (const bool terminal : {false, true}) {
    CHECK(Screen(terminal).line(0, "10%\r").line(0, "20%\r").line(0, "done\n").text() ==
          "[0] 10%\r[0] 20%\r[0] done\n");
  }
  CHECK(Screen().line_of_both("10%\r").line_of_both("20%\r").text() == "[0-1] 10%\r[0-1] 20%\r");
}

TEST_CASE("a line of another rank replaces a progress bar on a terminal and follows it elsewhere") {
  CHECK(Screen(true).line(0, "10%\r").line(1, "x\n").line(0, "20%\r").text() == "[0] 10%\r\x1b[K[1] x\n[0] 20%\r");
  CHECK(Screen(false).line(0, "10%\r").line(1, "x\n").line(0, "20%\r").text() == "[0] 10%\r\n[1] x\n[0] 20%\r");
}

TEST_CASE("a lone carriage return does not disturb the progress bar of another rank") {
  CHECK(Screen(true).line(0, "10%\r").line(1, "\r").line(0, "20%\r").text() == "[0] 10%\r[0] 20%\r");
  CHECK(Screen(true).line(0, "\r").line(0, "10%\r").text() == "\r[0] 10%\r");
}

TEST_CASE("a late newline completes its progress bar") {
  CHECK(Screen().line(0, "100%\r").piece(0, "\n", false, true).line(1, "x\n").text() == "[0] 100%\r\n[1] x\n");
}

TEST_CASE("lines of the launcher begin at the start of a line") {
  CHECK(Screen().piece(0, "half", true, false).own("ddplaunch: x").text() == "[0] half\nddplaunch: x\n");
  CHECK(Screen(true).line(0, "10%\r").own("ddplaunch: x").text() == "[0] 10%\r\x1b[Kddplaunch: x\n");
  CHECK(Screen().line(0, "a\n").own("x").line(0, "b\n").text() == "[0] a\nx\n[0] b\n");
}

TEST_CASE("at the end an unfinished line gets a newline, and a progress bar stays") {
  CHECK(Screen().piece(0, "half", true, false).finish().finish().text() == "[0] half\n");
  CHECK(Screen(true).line(0, "90%\r").finish().text() == "[0] 90%\r\n");
  CHECK(Screen().line(0, "a\n").finish().text() == "[0] a\n");
}

TEST_CASE("a terminal shows the bar of one rank as long as that rank updates it") {
  Screen screen(true);
  screen.line(0, "10%\r").line(1, "11%\r").line(0, "20%\r").line(1, "21%\r").line(1, "done\n").line(0, "30%\r");
  CHECK(screen.text() == "[0] 10%\r[0] 20%\r\x1b[K[1] done\n[0] 30%\r");
}

TEST_CASE("a progress bar without updates gives its line to another one") {
  Screen screen(true);
  screen.line(0, "10%\r");
  for (int i = 0; i < 200; ++i) screen.line(1, std::to_string(i) + "%\r");
  CHECK(screen.text().starts_with("[0] 10%\r\x1b[K[1] 99%\r[1] 100%\r"));
}

TEST_CASE("a progress bar of all ranks gives way to those of single ranks") {
  CHECK(Screen(true).line_of_both("0%\r").line(1, "1%\r").text() == "[0-1] 0%\r\x1b[K[1] 1%\r");
}

TEST_CASE("the cursor column in an unfinished line is tracked on a terminal") {
  Screen screen(true);
  CHECK(screen.cursor().is_at_line_start);
  screen.piece(0, "name? ", true, false);
  CHECK_FALSE(screen.cursor().is_at_line_start);
  CHECK(screen.cursor().column == 10);  // with the tag
  screen.piece(0, "日", false, false);
  CHECK(screen.cursor().column == 12);
  screen.piece(0, "\n", false, true);
  CHECK(screen.cursor().is_at_line_start);
  screen.line(0, " 10 %\r");
  CHECK_FALSE(screen.cursor().is_at_line_start);
  CHECK(screen.cursor().column == 0);
  screen.piece(0, "a\b", true, false);
  CHECK(screen.cursor().column == std::nullopt);
  CHECK_FALSE(screen.has_moved_cursor());
  screen.finish();
  CHECK(screen.cursor().is_at_line_start);
}

TEST_CASE("the cursor position stays unknown after a worker has moved the cursor to another line") {
  Screen screen(true);
  screen.line(0, "\x1b[31mred\x1b[0m\x1b[K\n");
  CHECK_FALSE(screen.has_moved_cursor());
  screen.line(0, "\x1b[1A\n");
  CHECK(screen.has_moved_cursor());
  CHECK(screen.cursor().column == std::nullopt);
  CHECK_FALSE(screen.cursor().is_at_line_start);
}

#include "launcher/see/view/styled_line.h"

#include "support/catch.h"

using namespace ddp::launcher;

TEST_CASE("a styled line has colours only if the terminal has them, and fits its width") {
  StyledLine coloured(6, {true, true});
  coloured.add("ab", Style::red).add("  ", Style::red).add("cdefg", Style::plain);
  CHECK(coloured.text() == "\x1b[31mab\x1b[0m  c~");
  CHECK(coloured.left() == 0);
  CHECK(coloured.selected() == "\x1b[7mab  c~\x1b[0m");

  StyledLine plain(6, {false, true});
  plain.add("ab", Style::red).spaces(2);
  CHECK(plain.text() == "ab");
  CHECK(plain.left() == 2);
  CHECK(plain.selected() == "ab");
  CHECK(StyledLine(0, {true, true}).add("x", Style::red).text().empty());
}

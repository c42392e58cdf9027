#include "launcher/see/top/top_command.h"

#include "support/catch.h"

using namespace ddp::launcher;
using Environment = std::vector<std::string>;

TEST_CASE("the style of the screen follows the terminal, the locale and NO_COLOR") {
  const Environment usual = {"TERM=xterm-256color", "LANG=en_US.UTF-8"};
  CHECK(style_of_terminal({}, usual, true) == FrameStyle{true, true});
  CHECK(style_of_terminal({}, usual, false) == FrameStyle{false, true});
  CHECK(style_of_terminal({}, {"LANG=en_US.utf8", "NO_COLOR=1"}, true) == FrameStyle{false, true});
  CHECK(style_of_terminal({}, {"LANG=en_US.UTF-8", "LC_ALL=C"}, true) == FrameStyle{true, false});
  CHECK(style_of_terminal({}, {"LC_ALL=", "LC_CTYPE=C.UTF-8", "LANG=C"}, true) == FrameStyle{true, true});
  CHECK(style_of_terminal({}, {}, true) == FrameStyle{true, false});
  CHECK(style_of_terminal({}, {"TERM=dumb"}, true) == FrameStyle{false, false});
  TopOptions options;
  options.no_color = true;
  CHECK(style_of_terminal(options, usual, true) == FrameStyle{false, true});
}

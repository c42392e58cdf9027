#include "launcher/facts/standard_input.h"

#include <string>

#include "support/catch.h"

using ddp::launcher::is_background;

TEST_CASE("a job is in the background if another group has its controlling terminal") {
  const auto stat = [](int group, int terminal, int foreground) {
    return "7 (a b) c) S 5 " + std::to_string(group) + " 5 " + std::to_string(terminal) + " " +
           std::to_string(foreground) + " 4194304 0";
  };
  CHECK(is_background(stat(7, 34817, 5), 34817));
  CHECK_FALSE(is_background(stat(7, 34817, 7), 34817));
  CHECK_FALSE(is_background(stat(7, 34818, 5), 34817));  // the standard input is another terminal
  CHECK_FALSE(is_background(stat(7, 0, -1), 34817));     // no controlling terminal
  CHECK_FALSE(is_background(stat(7, 34817, -1), 34817));
  for (const std::string text : {"", "7 (a", "7 (a)", "7 (a) S 5"}) CHECK_FALSE(is_background(text, 34817));
}

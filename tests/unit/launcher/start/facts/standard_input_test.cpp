#include "launcher/start/facts/standard_input.h"

#include "support/catch.h"

using ddp::launcher::is_background;

TEST_CASE("a job is in the background if another process group has its controlling terminal") {
  const auto stat = [](int group, int terminal, int foreground) {
    ddp::base::ProcessStat process;
    process.group = group;
    process.terminal = terminal;
    process.foreground = foreground;
    return process;
  };
  CHECK(is_background(stat(7, 34817, 5), 34817));
  CHECK_FALSE(is_background(stat(7, 34817, 7), 34817));
  CHECK_FALSE(is_background(stat(7, 34818, 5), 34817));  // the standard input is another terminal
  CHECK_FALSE(is_background(stat(7, 0, -1), 34817));     // no controlling terminal
  CHECK_FALSE(is_background(stat(7, 34817, -1), 34817));
}

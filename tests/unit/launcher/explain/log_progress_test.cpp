#include "launcher/explain/log_progress.h"

#include <string>

#include "support/catch.h"

namespace ddp::launcher {
namespace {

TEST_CASE("a program that counts has gone on") {
  LogProgress progress;
  CHECK_FALSE(progress.add("step 9 loss 1.5"));
  CHECK_FALSE(progress.add("saved"));
  CHECK(progress.add("step 10 loss 1.25"));
}

TEST_CASE("equal lines of several ranks do not show progress") {
  LogProgress progress;
  for (int rank = 0; rank < 8; ++rank) CHECK_FALSE(progress.add("leaked 3 objects"));
}

TEST_CASE("lines about the end do not show progress") {
  LogProgress progress;
  for (int i = 0; i < 100; ++i) {
    const std::string number = std::to_string(i);
    for (const char* words : {"error ", "pid ", "Warning: ", "[W", "  File ", "received signal ", "frame #"}) {
      CHECK_FALSE(progress.add(words + number));
    }
  }
}

TEST_CASE("many lines show progress, and a new failure forgets them") {
  LogProgress progress;
  const auto lines_until_progress = [&] {
    int lines = 1;
    while (!progress.add("line " + std::string(static_cast<std::size_t>(lines), 'x'))) ++lines;
    return lines;
  };
  const int lines = lines_until_progress();
  progress.begin(true);
  CHECK(lines_until_progress() == lines);
  progress.begin(false);
  CHECK(lines_until_progress() < lines / 4);
}

}  // namespace
}  // namespace ddp::launcher

#include "launcher/see/explain/log_progress.h"

#include <string>

#include "support/catch.h"

namespace ddp::launcher {
namespace {

TEST_CASE("a program whose counter advances has continued") {
  LogProgress progress;
  progress.begin(true);
  CHECK(progress.add("step 9 loss 1.5", false) == Progress::none);
  CHECK(progress.add("saved", false) == Progress::none);
  CHECK(progress.add("step 10 loss 1.25", false) == Progress::certain);
}

TEST_CASE("a program whose counter merely goes on may have continued") {
  LogProgress progress;
  progress.add("step 9 loss 1.5", false);
  progress.begin(true);
  CHECK(progress.add("see page 7", false) == Progress::none);
  CHECK(progress.add("step 10 loss 1.25", false) == Progress::perhaps);
}

TEST_CASE("a line outside of the error message may show progress") {
  LogProgress progress;
  progress.begin(true);
  CHECK(progress.add("INFO the batch is halved", true) == Progress::perhaps);
}

TEST_CASE("equal lines of several ranks do not show progress") {
  LogProgress progress;
  progress.begin(true);
  for (int rank = 0; rank < 8; ++rank) CHECK(progress.add("leaked 3 objects", false) == Progress::none);
}

TEST_CASE("messages about the end of the program do not show progress") {
  LogProgress progress;
  progress.begin(true);
  for (int i = 0; i < 100; ++i) {
    const std::string number = std::to_string(i);
    for (const char* words : {"error ", "pid ", "Warning: ", "[W", "  File ", "received signal ", "frame #"}) {
      CHECK(progress.add(words + number, true) == Progress::none);
    }
  }
}

TEST_CASE("a horizontal rule does not show progress") {
  LogProgress progress;
  progress.begin(false);
  for (int i = 0; i < 100; ++i) CHECK(progress.add("=====", true) == Progress::none);
}

TEST_CASE("a value in a progress bar is not a failure") {
  LogProgress progress;
  progress.begin(false);
  CHECK(progress.add("train: 33% 20/60, error=0, loss=1.5", false) == Progress::none);
  CHECK(progress.add("train: 42% 25/60, error=0, loss=1.4", false) == Progress::certain);
}

TEST_CASE("many lines show progress, and a new failure resets the count") {
  LogProgress progress;
  const auto lines_until_progress = [&](bool is_exception) {
    progress.begin(is_exception);
    int lines = 1;
    const auto line = [&] { return "line " + std::string(static_cast<std::size_t>(lines), 'x'); };
    while (progress.add(line(), false) != Progress::certain) ++lines;
    return lines;
  };
  const int lines = lines_until_progress(true);
  CHECK(lines_until_progress(true) == lines);
  CHECK(lines_until_progress(false) < lines / 4);
}

}  // namespace
}  // namespace ddp::launcher

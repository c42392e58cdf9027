#include "launcher/see/report/line_queue.h"

#include <string>
#include <vector>

#include "support/catch.h"

using namespace ddp::launcher;
using Lines = std::vector<std::string>;

namespace {

LogLine line(const std::string& text) {
  return {LogLevel::error, LogSource::job, text};
}

// Simulates a console that takes `room` lines, and all final lines.
struct SlowConsole {
  int room = 0;
  Lines shown;
  LineQueue lines{{[this](const LogLine& line) {
                     if (room == 0) return false;
                     --room;
                     shown.push_back(line.text);
                     return true;
                   },
                   [this](const LogLine& line) { shown.push_back(line.text + "!"); }}};
};

}  // namespace

TEST_CASE("lines that a console does not accept yet are printed before later ones") {
  SlowConsole console;
  console.lines.say(line("first"));
  console.lines.say(line("second"));
  CHECK(console.shown.empty());
  CHECK_FALSE(console.lines.print());
  console.room = 1;
  console.lines.say(line("third"));
  CHECK(console.shown == Lines{"first"});
  console.room = 10;
  CHECK(console.lines.print());
  CHECK(console.shown == Lines{"first", "second", "third"});
}

TEST_CASE("a final message is printed after all queued lines, which then also count as final") {
  SlowConsole console;
  console.lines.say(line("first"));
  console.lines.last_word(line("end"));
  CHECK(console.shown == Lines{"first!", "end!"});
  console.lines.say(line("more"));
  console.lines.finish();
  console.lines.finish();
  CHECK(console.shown == Lines{"first!", "end!", "more!"});
}

TEST_CASE("the oldest queued lines are dropped if there are too many, and their number is shown") {
  SlowConsole console;
  for (std::size_t i = 0; i < LineQueue::kMostLines + 3; ++i) console.lines.say(line(std::to_string(i)));
  console.lines.finish();
  REQUIRE(console.shown.size() == LineQueue::kMostLines + 1);
  CHECK(console.shown[0] == "3 lines of ddplaunch are missing here, because the console did not accept them!");
  CHECK(console.shown[1] == "3!");
}

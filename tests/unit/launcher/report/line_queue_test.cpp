#include "launcher/report/line_queue.h"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using ddp::launcher::LineQueue;
using Lines = std::vector<std::string>;

namespace {

// A console that takes so many lines, and all last words.
struct SlowConsole {
  int room = 0;
  Lines shown;
  LineQueue lines{{[this](const std::string& line) {
                     if (room == 0) return false;
                     --room;
                     shown.push_back(line);
                     return true;
                   },
                   [this](const std::string& line) { shown.push_back(line + "!"); }}};
};

}  // namespace

TEST_CASE("lines that a console does not take come before all later ones") {
  SlowConsole console;
  console.lines.say("first");
  console.lines.say("second");
  CHECK(console.shown.empty());
  CHECK_FALSE(console.lines.print());
  console.room = 1;
  console.lines.say("third");
  CHECK(console.shown == Lines{"first"});
  console.room = 10;
  CHECK(console.lines.print());
  CHECK(console.shown == Lines{"first", "second", "third"});
}

TEST_CASE("a last word comes after all lines that wait, which are last words as well") {
  SlowConsole console;
  console.lines.say("first");
  console.lines.last_word("end");
  CHECK(console.shown == Lines{"first!", "end!"});
  console.lines.say("more");
  console.lines.finish();
  console.lines.finish();
  CHECK(console.shown == Lines{"first!", "end!", "more!"});
}

TEST_CASE("of more lines than may wait the oldest are dropped, and their number is shown") {
  SlowConsole console;
  for (std::size_t i = 0; i < LineQueue::kMostLines + 3; ++i) console.lines.say(std::to_string(i));
  console.lines.finish();
  REQUIRE(console.shown.size() == LineQueue::kMostLines + 1);
  CHECK(console.shown[0] == "3 lines of ddplaunch are missing here: the console did not take them!");
  CHECK(console.shown[1] == "3!");
}

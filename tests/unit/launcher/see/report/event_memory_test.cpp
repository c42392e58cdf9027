#include "launcher/see/report/event_memory.h"

#include "support/catch.h"

using namespace ddp::launcher;
using Lines = std::vector<std::string>;

TEST_CASE("an event memory keeps all lines if there is space") {
  EventMemory memory(100);
  for (const char* line : {"a", "", "b", "c"}) memory.add(line);
  CHECK(memory.lines() == Lines{"a", "b", "c"});
}

TEST_CASE("the middle lines are dropped if there are too many") {
  EventMemory memory(40);  // 10 bytes for the first lines, and 30 for the latest ones
  for (int i = 10; i < 30; ++i) memory.add("line" + std::to_string(i));
  CHECK(memory.lines() ==
        Lines{"line10", R"({"event":"dropped","lines":14})", "line25", "line26", "line27", "line28", "line29"});
}

TEST_CASE("a line that is too long is dropped, and later lines are kept") {
  EventMemory memory(40);
  memory.add("first");
  memory.add(std::string(1000, 'x'));
  memory.add("last");
  CHECK(memory.lines() == Lines{"first", R"({"event":"dropped","lines":1})", "last"});
}

TEST_CASE("the history of an attempt is kept as a value, and dropped with its line") {
  AttemptHistory history;
  history.ranks.push_back({.rank = 1, .strip = std::string(1000, 'c')});
  EventMemory memory(4000);
  for (history.attempt = 0; history.attempt < 4; ++history.attempt) {
    memory.add("attempt " + std::to_string(history.attempt), history);
  }
  CHECK(memory.lines() == Lines{R"({"event":"dropped","lines":2})", "attempt 2", "attempt 3"});
  REQUIRE(memory.histories().size() == 2);
  CHECK(memory.histories().at(3).ranks == history.ranks);
}

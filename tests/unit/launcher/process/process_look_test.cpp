#include "launcher/process/process_look.h"

#include <catch2/catch.hpp>
#include <unistd.h>

#include <string>

using namespace ddp::launcher;

TEST_CASE("the state and the processor time of a process whatever its name is") {
  const std::string rest = " 1 4711 4711 0 -1 4194304 90 0 0 0 250 17 0 0 20 0 3 0 1234 0 0";
  for (const std::string name : {"train", "a b", "x) R 1", ") ", ""}) {
    const auto look = parse_process_stat("4711 (" + name + ") D" + rest);
    REQUIRE(look);
    CHECK(look->state == 'D');
    CHECK(look->cpu_ticks == 267);
    CHECK_FALSE(look->is_stopped());
  }
  CHECK(parse_process_stat("4711 (train) T" + rest)->is_stopped());
  CHECK(parse_process_stat("4711 (train) t" + rest)->is_stopped());
}

TEST_CASE("what is no stat is nothing") {
  for (const char* text : {"", "4711", "4711 (train", "4711 (train) ", "4711 (train) S 1 2",
                           "4711 (train) SS 1 2 3 4 5 6 7 8 9 10 11 12", "4711 (train) S 1 2 3 4 5 6 7 8 9 10 x 12"}) {
    CHECK_FALSE(parse_process_stat(text));
  }
}

TEST_CASE("a process can be looked at while it is there") {
  const auto self = look_at_process(::getpid(), true);
  REQUIRE(self);
  CHECK(self->state == 'R');
  CHECK_FALSE(look_at_process(1 << 30, false));
}

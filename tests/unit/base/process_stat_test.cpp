#include "base/process_stat.h"

#include <unistd.h>

#include <string>

#include "support/catch.h"

using namespace ddp::base;

TEST_CASE("a line of /proc/PID/stat is parsed whatever the process name contains") {
  const std::string rest = " 7 4712 4713 34817 -1 4194304 90 1000 3 40 250 17 5 6 20 0 3 0 1234 123456789 30";
  for (const std::string name : {"train", "a b", "x) R 1", ") ", ""}) {
    const auto stat = parse_process_stat("4711 (" + name + ") D" + rest);
    REQUIRE(stat);
    CHECK(stat->name == name);
    CHECK(stat->state == 'D');
    CHECK(stat->parent == 7);
    CHECK(stat->group == 4712);
    CHECK(stat->terminal == 34817);
    CHECK(stat->foreground == -1);
    CHECK(stat->minor_faults == 90);
    CHECK(stat->minor_faults_of_children == 1000);
    CHECK(stat->major_faults == 3);
    CHECK(stat->major_faults_of_children == 40);
    CHECK(stat->cpu_ticks == 267);
    CHECK(stat->cpu_ticks_of_children == 11);
    CHECK(stat->started == 1234);
    CHECK(stat->rss_pages == 30);
    CHECK_FALSE(stat->wait_status);
  }
}

TEST_CASE("the exit status of a dead process is read from the last field of /proc/PID/stat") {
  const auto stat = parse_process_stat(
      "42 (a) Z 1 42 42 0 -1 4194560 1 0 0 0 5 6 0 0 20 0 1 0 9876 0 0 18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 "
      "1 0 0 0 0 0 0 0 0 0 0 0 0 256\n");
  REQUIRE(stat);
  CHECK(stat->state == 'Z');
  CHECK(stat->wait_status == 256);
}

TEST_CASE("text that is not a line of /proc/PID/stat is rejected") {
  for (const char* text : {"", "4711", "4711 (train", "4711 (train) ", "4711 (train) S", "4711 (train) S 1 2",
                           "4711) (train S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21",
                           "4711 (train) SS 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21",
                           "4711 (train) S 1 2 3 4 5 6 7 8 9 10 x 12 13 14 15 16 17 18 19 20 21"}) {
    CHECK_FALSE(parse_process_stat(text));
  }
}

TEST_CASE("/proc/PID/stat can be read for this process and not for one that has exited") {
  const auto self = read_process_stat(::getpid());
  REQUIRE(self);
  CHECK(self->state == 'R');
  CHECK(self->parent == ::getppid());
  CHECK(read_process_stat("/proc/self/task/" + std::to_string(::getpid()))->started == self->started);
  CHECK_FALSE(read_process_stat(0));
}

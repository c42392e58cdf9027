#include "runtime/progress/status_page.h"

#include <unistd.h>

#include <thread>

#include "runtime/progress/group_progress.h"
#include "support/catch.h"
#include "support/made_page.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

TEST_CASE("nothing is shown without a page or with another file in its place") {
  for (const char* descriptor : {static_cast<const char*>(nullptr), "", "x", "1000000", "0"}) {
    CHECK(StatusPage::map(descriptor).memory() == nullptr);
  }
  const MadePage other;
  other.layout->version = wire::kPageVersion + 1;
  CHECK(other.map().memory() == nullptr);
  const StatusPage none;
  none.count_handed_on();
  none.count_step();
  CHECK(none.lost_rank() == -1);
  const ThreadWaits waits(none);
  GroupProgress nothing(none, true, "world", 7, 0, 2);
  nothing.called({});
}

TEST_CASE("a page that another process writes is left alone") {
  const MadePage made;
  made.layout->writer = ::getpid() + 1;
  CHECK(made.map().memory() == nullptr);
  made.layout->writer = 0;
  CHECK(made.map().memory() != nullptr);
  CHECK(made.layout->writer == ::getpid());
}

TEST_CASE("the data of a process before exec() is cleared except its steps") {
  const MadePage made;
  made.layout->groups[0].in_use = wire::kPageInUse;
  made.layout->blocked_threads = 1;
  made.layout->worker.calling_threads = 2;
  made.layout->worker.waiting_threads = 1;
  made.layout->worker.steps = 7;
  made.map().forget_former_program();
  CHECK(made.layout->groups[0].in_use == wire::kPageFree);
  CHECK(made.layout->blocked_threads == 0);
  CHECK(made.layout->worker.calling_threads == 0);
  CHECK(made.layout->worker.waiting_threads == 0);
  CHECK(made.layout->worker.steps == 7);
}

TEST_CASE("the status page counts steps and data handed on through shared memory, and returns the lost rank") {
  const MadePage made;
  const StatusPage page = made.map();
  page.count_handed_on();
  page.count_step();
  page.count_step();
  CHECK(made.layout->worker.handed_on == 1);
  CHECK(made.layout->worker.steps == 2);
  CHECK(page.lost_rank() == -1);
  made.layout->lost_rank = 3;
  CHECK(page.lost_rank() == 3);
}

TEST_CASE("a waiting thread is counted once, and not while it runs the program's code") {
  const MadePage made;
  const StatusPage page = made.map();
  const auto& waiting = made.layout->worker.waiting_threads;
  std::thread([&] {
    {
      const ThreadWaits waits(page);
      CHECK(made.layout->worker.calling_threads == 1);
      const ThreadWaits nested(page);
      CHECK(waiting == 1);
      const ProgramRuns program;
      CHECK(waiting == 0);
      const ThreadWaits of_the_program(page);
      CHECK(waiting == 1);
    }
    CHECK(waiting == 0);
  }).join();
  CHECK(made.layout->worker.calling_threads == 0);
}

#include "launcher/run/process/process_tree.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "support/catch.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

// Holds the pids of a child and of the child's own child, which are both running.
struct Family {
  pid_t child = 0;
  pid_t grandchild = 0;
};

Family start_family() {
  int pipe_ends[2];
  REQUIRE(::pipe(pipe_ends) == 0);
  Family family;
  family.child = ::fork();
  if (family.child == 0) {
    const pid_t grandchild = ::fork();
    if (grandchild == 0) {
      ::setsid();
      while (true) ::pause();
    }
    static_cast<void>(!::write(pipe_ends[1], &grandchild, sizeof grandchild));
    while (true) ::pause();
  }
  REQUIRE(::read(pipe_ends[0], &family.grandchild, sizeof family.grandchild) == sizeof family.grandchild);
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
  return family;
}

bool contains(const std::vector<pid_t>& pids, pid_t pid) {
  return std::find(pids.begin(), pids.end(), pid) != pids.end();
}

}  // namespace

TEST_CASE("descendants are found across sessions and through their own children") {
  become_subreaper();
  const Family family = start_family();
  const auto found = descendants(::getpid(), {});
  CHECK(contains(found, family.child));
  CHECK(contains(found, family.grandchild));
  CHECK_FALSE(contains(descendants(::getpid(), {family.child}), family.grandchild));
  CHECK(kill_descendants({}, 10s).empty());
  CHECK(::kill(family.child, 0) == -1);
  CHECK(::kill(family.grandchild, 0) == -1);
}

TEST_CASE("dead orphans are reaped and known children are not") {
  become_subreaper();
  const pid_t known = ::fork();
  if (known == 0) ::_exit(7);
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(known), &info, WEXITED | WNOWAIT) == 0);
  reap_orphans([known](pid_t pid) { return pid == known; });
  int status = 0;
  CHECK(::waitpid(known, &status, 0) == known);
  CHECK(WEXITSTATUS(status) == 7);

  const pid_t orphan = ::fork();
  if (orphan == 0) ::_exit(0);
  REQUIRE(::waitid(P_PID, static_cast<id_t>(orphan), &info, WEXITED | WNOWAIT) == 0);
  reap_orphans([](pid_t) { return false; });
  CHECK(::waitpid(orphan, &status, 0) == -1);
}

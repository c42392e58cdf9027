#include "launcher/process/worker_cgroup.h"

#include <catch2/catch.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

using namespace ddp::launcher;
using namespace std::chrono_literals;

TEST_CASE("the folder of a cgroup of version 2 follows from where it is mounted") {
  const std::string mounts =
      "29 23 0:25 / /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu\n"
      "30 23 0:26 / /sys/fs/cgroup/unified rw,nosuid shared:10 - cgroup2 cgroup2 rw\n";
  CHECK(cgroup2_folder("4:memory:/x\n0::/user.slice/a\n", mounts) == "/sys/fs/cgroup/unified/user.slice/a");
  CHECK(cgroup2_folder("0::/\n", mounts) == "/sys/fs/cgroup/unified");
  CHECK(cgroup2_folder("0::/kube/pod/c/sub\n", "1 2 0:26 /kube/pod/c /sys/fs/cgroup rw - cgroup2 cgroup rw\n") ==
        "/sys/fs/cgroup/sub");
  CHECK(cgroup2_folder("0::/a\n", "").empty());
  CHECK(cgroup2_folder("4:memory:/x\n", mounts).empty());
}

TEST_CASE("what has joined a cgroup is killed in whatever session it is and no folder stays") {
  std::string path;
  {
    WorkerCgroup cgroup;
    if (!cgroup.make()) {
      WARN("no writable cgroup of version 2 here: nothing to test");
      return;
    }
    path = cgroup.path();
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
      static_cast<void>(!::write(cgroup.procs_fd(), "0", 1));
      ::signal(SIGTERM, SIG_IGN);
      if (::fork() == 0) {
        ::setsid();
        if (::fork() != 0) ::_exit(0);
        static_cast<void>(!::write(ends[1], "x", 1));
      }
      while (true) ::pause();
    }
    ::close(ends[1]);
    char byte = 0;
    REQUIRE(::read(ends[0], &byte, 1) == 1);
    CHECK(cgroup.kill_all(5s));
    ::waitpid(child, nullptr, 0);
    // Nobody holds the pipe any more: the orphan in its own session is dead as well.
    CHECK(::read(ends[0], &byte, 1) == 0);
    ::close(ends[0]);
  }
  CHECK_FALSE(std::filesystem::exists(path));
}

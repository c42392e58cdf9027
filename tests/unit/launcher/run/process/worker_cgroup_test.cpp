#include "launcher/run/process/worker_cgroup.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "launcher/start/facts/cgroups.h"
#include "support/catch.h"
#include "support/deadline.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

// Moves this process to a cgroup where only the launchers of the test look for leftovers. `path` is empty if no cgroup
// can be made.
class CgroupApart {
 public:
  CgroupApart() {
    before_ = own_cgroup2_folder();
    path = before_ + "/ddptest-" + std::to_string(::getpid());
    std::error_code error;
    if (before_.empty() || !std::filesystem::create_directory(path, error) || !enter(path)) path.clear();
  }
  CgroupApart(const CgroupApart&) = delete;
  CgroupApart& operator=(const CgroupApart&) = delete;
  ~CgroupApart() {
    if (!path.empty() && enter(before_)) ::rmdir(path.c_str());
  }

  std::string path;

 private:
  static bool enter(const std::string& folder) {
    return static_cast<bool>(std::ofstream(folder + "/cgroup.procs") << ::getpid() << std::flush);
  }

  std::string before_;
};

}  // namespace

TEST_CASE("processes in a cgroup are killed in every session, and the cgroup directory is removed") {
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
    // No process holds the pipe any more, so the orphan in its own session is dead as well.
    CHECK(::read(ends[0], &byte, 1) == 0);
    ::close(ends[0]);
  }
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("processes in the cgroup of a killed launcher are killed by the next launcher, and running ones are kept") {
  const CgroupApart apart;
  const auto living = std::make_unique<WorkerCgroup>();
  if (apart.path.empty() || !living->make()) {
    WARN("no writable cgroup of version 2 here: nothing to test");
    return;
  }
  const std::string leftover = apart.path + "/ddplaunch-job-leftover-1";
  REQUIRE(std::filesystem::create_directory(leftover));
  const pid_t orphan = ::fork();
  if (orphan == 0) {
    while (true) ::pause();
  }
  std::ofstream(leftover + "/cgroup.procs") << orphan;
  WorkerCgroup next;
  CHECK(next.make());
  int status = 0;
  CHECK(::waitpid(orphan, &status, 0) == orphan);
  CHECK(WIFSIGNALED(status));
  // A start waits only a moment until the cgroup is empty. If it is not, the next start removes it.
  CHECK(ddp::test::eventually([&] {
    WorkerCgroup later;
    return later.make() && !std::filesystem::exists(leftover);
  }));
  CHECK(std::filesystem::exists(living->path()));
}

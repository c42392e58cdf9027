#include "launcher/run/process/process_sample.h"

#include <signal.h>  // NOLINT(modernize-deprecated-headers): real-time signals are POSIX
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <string>
#include <thread>

#include "base/file.h"
#include "base/unique_fd.h"
#include "support/catch.h"
#include "support/deadline.h"
#include "support/temporary_directory.h"

using namespace ddp::launcher;
using namespace ddp;
using namespace std::chrono_literals;

namespace {

std::chrono::steady_clock::time_point in_a_while() {
  return std::chrono::steady_clock::now() + 20s;
}

std::uint64_t inode_of(int fd) {
  struct stat status {};
  REQUIRE(::fstat(fd, &status) == 0);
  return status.st_ino;
}

bool holds(const std::vector<HeldSocket>& sockets, std::uint64_t inode, pid_t holder) {
  return std::ranges::find(sockets, HeldSocket{inode, holder}) != sockets.end();
}

}  // namespace

TEST_CASE("a process can be sampled while it exists") {
  const auto self = sample_process(::getpid(), true);
  REQUIRE(self);
  CHECK(self->state == 'R');
  CHECK_FALSE(sample_process(1 << 30, false));
}

TEST_CASE("the threads of a process are listed with the first one first") {
  std::atomic<bool> is_over = false;
  std::thread other([&] {
    ::prctl(PR_SET_NAME, "a (thread)");
    while (!is_over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  std::vector<ThreadSample> threads;
  const auto is_named = [&] {
    threads = sample_threads(::getpid(), 64);
    return threads.size() > 1 && std::any_of(threads.begin(), threads.end(),
                                             [](const ThreadSample& thread) { return thread.name == "a (thread)"; });
  };
  CHECK(ddp::test::eventually(is_named));
  CHECK(threads.front().tid == ::getpid());
  CHECK(sample_threads(::getpid(), 1).size() == 1);
  is_over = true;
  other.join();
  CHECK(sample_threads(-1, 64).empty());
}

TEST_CASE("a sample shows whether a process has a handler for a signal") {
  CHECK_FALSE(catches_signal(::getpid(), SIGRTMIN + 11));
  ::signal(SIGRTMIN + 11, [](int) {});
  CHECK(catches_signal(::getpid(), SIGRTMIN + 11));
  ::signal(SIGRTMIN + 11, SIG_DFL);
  CHECK_FALSE(catches_signal(-1, SIGTERM));
  CHECK_FALSE(catches_signal(::getpid(), 0));
  CHECK_FALSE(catches_signal(::getpid(), 1000));
}

TEST_CASE("a sample shows whether a thread blocks a signal") {
  sigset_t one;
  ::sigemptyset(&one);
  ::sigaddset(&one, SIGRTMIN + 11);
  CHECK_FALSE(blocks_signal(::gettid(), SIGRTMIN + 11));
  ::pthread_sigmask(SIG_BLOCK, &one, nullptr);
  CHECK(blocks_signal(::gettid(), SIGRTMIN + 11));
  ::pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
}

TEST_CASE("the program behind a wrapper is found, also a Python program") {
  const TemporaryDirectory directory;
  const std::string conda = directory.path() + "/conda";
  std::ofstream(conda) << "import subprocess, sys\nsubprocess.call(sys.argv[1:])\n";
  const pid_t wrapper = ::fork();
  if (wrapper == 0) {
    ::execlp("python3", "python3", "-u", conda.c_str(), "sh", "-c", "sleep 600; true", nullptr);
    ::_exit(127);
  }
  const auto name = [](pid_t pid) { return ddp::base::read_file("/proc/" + std::to_string(pid) + "/comm"); };
  CHECK(ddp::test::eventually([&] { return name(program_of(wrapper)) == "sleep\n"; }));
  for (const pid_t pid : {program_of(wrapper), wrapper}) ::kill(pid, SIGKILL);
  ::waitpid(wrapper, nullptr, 0);
}

TEST_CASE("a program that is no wrapper is returned itself") {
  CHECK(program_of(::getpid()) == ::getpid());
  CHECK_FALSE(is_python(::getpid()));
}

TEST_CASE("the sockets of a process and its children are found, and no other files") {
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0);
  const base::UniqueFd kept(ends[0]);
  base::UniqueFd given(ends[1]);
  std::array<int, 2> pipe{};
  REQUIRE(::pipe(pipe.data()) == 0);
  const base::UniqueFd out(pipe[0]);
  const base::UniqueFd in(pipe[1]);
  const std::uint64_t inode = inode_of(given.get());
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  given.reset();
  const auto sockets = sockets_of(::getpid(), in_a_while());
  CHECK(holds(sockets, inode_of(kept.get()), ::getpid()));
  CHECK(holds(sockets, inode, child));
  CHECK_FALSE(holds(sockets, inode, ::getpid()));
  CHECK_FALSE(holds(sockets, inode_of(out.get()), ::getpid()));
  CHECK(holds(sockets_of(child, in_a_while()), inode, child));
  CHECK(sockets_of(::getpid(), {}).empty());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK(sockets_of(child, in_a_while()).empty());
}

TEST_CASE("the inode is read from a link to a socket") {
  CHECK(socket_of_link("socket:[4711]") == 4711);
  for (const char* link :
       {"", "socket:", "socket:[", "socket:[]", "socket:[-1]", "socket:[1", "pipe:[4711]", "/dev/null"}) {
    INFO(link);
    CHECK_FALSE(socket_of_link(link));
  }
}

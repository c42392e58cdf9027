#include "launcher/run/process/process_host.h"

#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>

#include "launcher/run/process/process_tree.h"
#include "support/catch.h"
#include "support/deadline.h"
#include "support/temporary_directory.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;
using ddp::base::ExitStatus;

namespace {

class Host {
 public:
  Host() : processes_(make_process_host(loop_, nullptr)) {
    processes_->on_exit([this](int local_rank, const WorkerExit& exit) {
      ends_.emplace(local_rank, exit.status);
      peaks_.emplace(local_rank, exit.peak_rss_bytes);
      if (ends_.size() == expected_) loop_.stop();
    });
  }

  pid_t start(int local_rank, const std::string& script) {
    WorkerSpec spec;
    spec.program = "/bin/sh";
    spec.arguments = {"sh", "-c", script};
    spec.environment = {"PATH=/usr/bin:/bin"};
    const auto pid = processes_->spawn(local_rank, spec, {});
    if (!pid) FAIL(pid.error().message);
    ++expected_;
    return pid.value();
  }

  const std::map<int, ExitStatus>& run() {
    const auto limit = loop_.at(std::chrono::steady_clock::now() + 20s, [this] { loop_.stop(); });
    loop_.run();
    REQUIRE(ends_.size() == expected_);
    return ends_;
  }

  std::uint64_t peak_of(int local_rank) const { return peaks_.at(local_rank); }
  ProcessHost& processes() { return *processes_; }

 private:
  ddp::net::EventLoop loop_;
  std::unique_ptr<ProcessHost> processes_;
  std::map<int, ExitStatus> ends_;
  std::map<int, std::uint64_t> peaks_;
  std::size_t expected_ = 0;
};

bool wait_for_file(const std::string& path) {
  for (int i = 0; i < 10'000; ++i) {
    if (std::ifstream(path).good()) return true;
    ::usleep(1000);
  }
  return false;
}

pid_t read_pid(const std::string& path) {
  REQUIRE(wait_for_file(path));
  pid_t pid = 0;
  std::ifstream(path) >> pid;
  REQUIRE(pid > 1);
  return pid;
}

}  // namespace

TEST_CASE("the exit of each worker is reported once with its exact status") {
  Host host;
  for (int i = 0; i < 8; ++i)
    host.start(i, i % 2 == 0 ? "exit " + std::to_string(i) : "kill -" + std::to_string(i) + " $$");
  const auto& ends = host.run();
  for (int i = 0; i < 8; ++i) {
    CHECK(ends.at(i) ==
          (i % 2 == 0 ? ExitStatus::exited(i) : ExitStatus::killed(i, ends.at(i) != ExitStatus::killed(i))));
  }
}

TEST_CASE("a signal reaches the leader, and a group signal also reaches its children") {
  Host host;
  host.start(0, "trap 'exit 5' TERM; while :; do sleep 0.01; done");
  host.start(1, "sleep 1000 & wait");
  host.processes().signal(0, SIGTERM, SignalTarget::leader);
  host.processes().signal(1, SIGKILL, SignalTarget::group);
  const auto& ends = host.run();
  CHECK(ends.at(1) == ExitStatus::killed(SIGKILL));
  // The trap may not have been set yet when the signal came.
  CHECK((ends.at(0) == ExitStatus::exited(5) || ends.at(0) == ExitStatus::killed(SIGTERM)));
}

TEST_CASE("a signal to an exited worker has no effect") {
  Host host;
  host.start(0, "exit 0");
  host.run();
  host.processes().signal(0, SIGKILL, SignalTarget::leader);
  host.processes().signal(0, SIGKILL, SignalTarget::group);
  host.processes().signal(99, SIGKILL, SignalTarget::group);
}

TEST_CASE("processes that workers leave behind are killed even in their own sessions") {
  const TemporaryDirectory directory;
  Host host;
  // setsid runs in a subshell that ends, so the sleeper is an orphan in its own session.
  host.start(0, "(setsid sh -c 'echo $$ > " + directory.path() + "/pid.tmp; mv " + directory.path() + "/pid.tmp " +
                    directory.path() + "/pid; exec sleep 1000' &) ; exit 0");
  host.run();
  const pid_t orphan = read_pid(directory.path() + "/pid");
  REQUIRE(::kill(orphan, 0) == 0);
  CHECK(ddp::test::eventually([&] { return host.processes().end_leftovers().empty(); }));
  CHECK(::kill(orphan, 0) == -1);
}

TEST_CASE("processes left by a worker are distinguished from the launcher's own children") {
  Host host;
  const pid_t worker = host.start(0, "(setsid sleep 60 &) ; sleep 60; true");
  const pid_t tool = ::fork();
  if (tool == 0) {
    ::pause();
    ::_exit(0);
  }
  // These are the shell, its child, and the orphan.
  CHECK(ddp::test::eventually([&] { return host.processes().processes_of(0).size() == 3; }));
  const std::vector<pid_t> processes = host.processes().processes_of(0);
  CHECK(std::find(processes.begin(), processes.end(), worker) != processes.end());
  CHECK(std::find(processes.begin(), processes.end(), tool) == processes.end());
  ::kill(tool, SIGKILL);
  host.processes().signal(0, SIGKILL, SignalTarget::group);
  host.run();
  host.processes().end_leftovers();
}

TEST_CASE("a dead worker that a debugger holds counts as exited") {
  const TemporaryDirectory directory;
  for (const int signal : {SIGKILL, 0}) {
    Host host;
    // The worker has no children, because a debugger would stop it when they end.
    const std::string may_end = directory.path() + "/fifo" + std::to_string(signal);
    REQUIRE(::mkfifo(may_end.c_str(), 0600) == 0);
    const pid_t worker = host.start(0, "read line < " + may_end + "; exit 3");
    const pid_t debugger = ::fork();
    if (debugger == 0) {
      if (::ptrace(PTRACE_SEIZE, worker, nullptr, nullptr) != 0) ::_exit(1);
      if (signal != 0) ::kill(worker, signal);
      if (signal == 0) std::ofstream(may_end) << "go on\n";
      while (true) ::pause();  // it never waits for the traced process
    }
    CHECK(host.run().at(0) == (signal != 0 ? ExitStatus::killed(signal) : ExitStatus::exited(3)));
    CHECK(::kill(debugger, SIGKILL) == 0);
    ::waitpid(debugger, nullptr, 0);
  }
}

TEST_CASE("the process group of a failed worker ends with it") {
  const TemporaryDirectory directory;
  Host host;
  host.start(0, "sleep 1000 & echo $! > " + directory.path() + "/pid; exit 3");
  CHECK(host.run().at(0) == ExitStatus::exited(3));
  const pid_t child = read_pid(directory.path() + "/pid");
  CHECK(ddp::test::eventually([&] { return host.processes().end_leftovers().empty(); }));
  CHECK(::kill(child, 0) == -1);
}

TEST_CASE("children from before the launcher's start are left alone") {
  const pid_t foreign = ::fork();
  if (foreign == 0) {
    ::pause();
    ::_exit(0);
  }
  {
    Host host;
    host.start(0, "exit 0");
    host.run();
    CHECK(ddp::test::eventually([&] { return host.processes().end_leftovers().empty(); }));
  }
  CHECK(::waitpid(foreign, nullptr, WNOHANG) == 0);
  ::kill(foreign, SIGKILL);
  ::waitpid(foreign, nullptr, 0);
}

TEST_CASE("the peak memory of a worker is known after its exit") {
  Host host;
  host.start(0, "exit 0");
  host.start(1, "head -c 60000000 /dev/zero | tail -c 50000000 > /dev/null");
  host.run();
  // The peak includes the time before the process executed its program, when it was a copy of this test.
  CHECK(host.peak_of(0) > 100'000);
  CHECK(host.peak_of(1) >= host.peak_of(0));
  CHECK(host.peak_of(1) > 40'000'000);
}

// Measures what a view of a job costs the launcher and `ddplaunch top`: top_cost DDPLAUNCH [SECONDS]
//
// A ViewServer on its own thread shows jobs of 64 and 4,096 ranks, whose figures change all the time. The program
// itself runs in a pseudo terminal of 200x60. Prints one line of JSON per job: CPU time as a share of one core at two
// frames per second, the length of a snapshot, and the bytes that reached the terminal.
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>  // NOLINT(modernize-deprecated-headers): clock_gettime is POSIX
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>

#include "launcher/see/top/view_server.h"
#include "launcher/see/view/job_snapshot.h"
#include "support/loop_thread.h"
#include "support/made_snapshot.h"
#include "support/temporary_directory.h"

namespace {

using namespace ddp::launcher;
using std::chrono::steady_clock;

double seconds_of(const timespec& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

double thread_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return seconds_of(time);
}

// Changes all figures of all ranks, so that every line of every frame differs.
void change(JobSnapshot& job) {
  ++job.step;
  job.uptime += 0.5;
  for (RankRow& row : job.ranks) {
    ++row.steps;
    row.waited_for = static_cast<double>((job.step * 7 + static_cast<std::uint64_t>(row.rank) * 13) % 50) / 100;
    row.computing = 0.9 - row.waited_for;
    row.collective_age = row.waited_for;
  }
}

struct Cost {
  double launcher = 0;  // seconds of CPU time
  double top = 0;
  std::size_t terminal_bytes = 0;
};

Cost run(const char* ddplaunch, JobSnapshot job, double seconds) {
  const TemporaryDirectory directory;
  Cost cost;
  ddp::test::LoopThread thread;
  std::unique_ptr<ViewServer> server;
  double before = 0;
  thread.run([&] {
    server = std::make_unique<ViewServer>(thread.loop(), listen_in({directory.path()}, ::getpid()).value(),
                                          ViewServer::Job{[&] {
                                                            change(job);
                                                            return job;
                                                          },
                                                          [](int, const ViewServer::Reply& reply) { reply({}); },
                                                          [](int, const ViewServer::Sink&) { return nullptr; }});
    before = thread_seconds();
  });
  const std::string path = server->path();
  winsize window{60, 200, 0, 0};
  int terminal = -1;
  const pid_t pid = ::forkpty(&terminal, nullptr, nullptr, &window);
  if (pid == 0) {
    ::execl(ddplaunch, ddplaunch, "top", path.c_str(), static_cast<char*>(nullptr));
    ::_exit(127);
  }
  const auto end = steady_clock::now() + std::chrono::duration<double>(seconds);
  std::array<char, 65'536> bytes;
  while (steady_clock::now() < end) {
    pollfd readable{terminal, POLLIN, 0};
    if (::poll(&readable, 1, 100) != 1) continue;
    cost.terminal_bytes += static_cast<std::size_t>(std::max<ssize_t>(::read(terminal, bytes.data(), bytes.size()), 0));
  }
  thread.run([&] { cost.launcher = thread_seconds() - before; });
  ::kill(pid, SIGTERM);
  rusage usage{};
  int status = 0;
  while (::wait4(pid, &status, WNOHANG, &usage) == 0) {
    pollfd readable{terminal, POLLIN, 0};
    if (::poll(&readable, 1, 10) == 1) static_cast<void>(::read(terminal, bytes.data(), bytes.size()));
  }
  if (status != 0) std::fprintf(stderr, "ddplaunch top has failed (status %d)\n", status);
  cost.top = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
  thread.run([&] { server.reset(); });
  ::close(terminal);
  return cost;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: top_cost DDPLAUNCH [SECONDS]\n");
    return 2;
  }
  const double seconds = argc > 2 ? std::stod(argv[2]) : 10;
  for (const int ranks : {64, 4096}) {
    const JobSnapshot job = ddp::test::training_job(ranks);
    const Cost cost = run(argv[1], job, seconds);
    std::printf(
        "{\"ranks\":%d,\"seconds\":%.1f,\"launcher_core_share\":%.5f,\"top_core_share\":%.5f,\"snapshot_bytes\":%zu,"
        "\"terminal_bytes_per_second\":%.0f}\n",
        ranks, seconds, cost.launcher / seconds, cost.top / seconds, json_of(job).size(),
        static_cast<double>(cost.terminal_bytes) / seconds);
    std::fflush(stdout);
  }
  return 0;
}

// Runs the pump with workers that only write, for tests/bench/output_bench.py.
//
//   output_pump_driver WORKERS LINES FOLDER|- collapse|each same|own
//
// Each worker writes LINES lines of about 40 bytes; with "same", all ranks write equal lines. The lines go to stdout
// and, unless FOLDER is "-", to FOLDER/<rank>.log.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "bench/line_writer.h"
#include "launcher/run/output/output_pump.h"

namespace {

using namespace ddp::launcher;

// Does not use ru_maxrss, which starts with the parent's value.
long peak_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::atol(line.c_str() + 6);
  }
  return 0;
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  const int workers = std::atoi(argv[1]);
  const int lines = std::atoi(argv[2]);
  const std::string folder = argv[3];
  const bool files = folder != "-";
  const bool same = std::string(argv[5]) == "same";
  std::signal(SIGPIPE, SIG_IGN);

  OutputPlan plan;
  plan.workers.assign(static_cast<std::size_t>(workers), {{true, files}, {true, false}});
  plan.tag = "[${rank}] ";
  plan.collapse = std::string(argv[4]) == "collapse";
  plan.lossless = true;
  ddp::net::EventLoop loop;
  OutputPump pump(loop, plan, {"node0", "default"});

  const auto begin = std::chrono::steady_clock::now();
  for (int rank = 0; rank < workers; ++rank) {
    auto streams = pump.open({rank, rank}, {folder + "/" + std::to_string(rank) + ".log", "", "", ""});
    if (!streams) {
      std::fprintf(stderr, "%s\n", streams.error().message.c_str());
      return 1;
    }
    if (::fork() == 0) {
      ::dup2(streams.value().out.get(), STDOUT_FILENO);
      ::dup2(streams.value().err.get(), STDERR_FILENO);
      for (int fd = 3; fd < 4096; ++fd) ::close(fd);
      ::_exit(ddp::bench::write_lines(rank, lines, same) ? 0 : 1);
    }
  }
  int left = workers;
  const std::array ended = {SIGCHLD};
  const auto reap = [&] {
    while (left > 0 && ::waitpid(-1, nullptr, WNOHANG) > 0) --left;
    if (left == 0) loop.stop();
  };
  const auto watch = loop.on_signals(ended, [&](int) { reap(); });
  reap();
  if (left > 0) loop.run();
  pump.drain();
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;

  rusage own{};
  ::getrusage(RUSAGE_SELF, &own);
  std::fprintf(stderr,
               R"({"seconds": %.4f, "pump_cpu_seconds": %.4f, "peak_kib": %ld, "lost": %lld})"
               "\n",
               wall.count(), seconds(own.ru_utime) + seconds(own.ru_stime), peak_kib(),
               static_cast<long long>(pump.lost_lines().all));
  return 0;
}

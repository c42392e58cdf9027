// Runs a pump with its own consoles, and workers that are this process or its children.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "launcher/run/output/output_pump.h"
#include "support/catch.h"
#include "support/deadline.h"
#include "support/output_reader.h"
#include "support/temporary_directory.h"

namespace ddp::launcher {

inline std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void put(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

class OutputJob {
 public:
  explicit OutputJob(const OutputPlan& plan, ConsoleBounds bounds = {}, int console = -1) {
    std::signal(SIGPIPE, SIG_IGN);
    const int out_fd = console >= 0 ? console : out.fd();
    const int err_fd = console >= 0 ? console : err.fd();
    pump = std::make_unique<OutputPump>(loop, plan, OutputContext{"node0", "default", out_fd, err_fd, bounds});
    pump->on_notice = [this](const std::string& text) { notices.push_back(text); };
  }

  std::string file(int rank, const std::string& name) const { return logs.path() + "/" + std::to_string(rank) + name; }
  WorkerStreams open(int rank) {
    auto streams =
        pump->open({rank, rank}, {file(rank, ".out"), file(rank, ".err"), logs.path() + "/filtered_stdout.log",
                                  logs.path() + "/filtered_stderr.log"});
    if (!streams) FAIL(streams.error().message);
    return std::move(streams).value();
  }
  // Starts a child that calls `action` with the streams as its descriptors 1 and 2.
  pid_t start(int rank, const std::function<void()>& action) {
    const WorkerStreams streams = open(rank);
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::dup2(streams.out.get(), 1);
      ::dup2(streams.err.get(), 2);
      for (int fd = 3; fd < 256; ++fd) ::close(fd);
      action();
      ::_exit(0);
    }
    pids.push_back(pid);
    return pid;
  }
  void runs_until(const std::function<bool()>& done) {
    const auto give_up = ddp::test::soon();
    bool is_done = done();
    while (!is_done && std::chrono::steady_clock::now() < give_up) {
      loop.poll();
      std::this_thread::yield();
      is_done = done();
    }
    CHECK(is_done);
  }
  // Returns when every child has ended, with the time that draining took.
  std::chrono::steady_clock::duration ends() {
    for (const pid_t pid : pids) {
      runs_until([&] { return ::waitpid(pid, nullptr, WNOHANG) == pid; });
    }
    pids.clear();
    const auto begin = std::chrono::steady_clock::now();
    pump->drain();
    return std::chrono::steady_clock::now() - begin;
  }
  // Returns everything that the console has shown.
  const std::string& shown() {
    pump.reset();
    return out.text();
  }
  const std::string& shown_on_stderr() {
    pump.reset();
    return err.text();
  }

  TemporaryDirectory logs;
  test::PipeConsole out;
  test::PipeConsole err;
  ddp::net::EventLoop loop;
  std::unique_ptr<OutputPump> pump;
  std::vector<pid_t> pids;
  std::vector<std::string> notices;
};

}  // namespace ddp::launcher

// TorchWatch starts ddp_torch_reader as soon as the PyTorch of a worker of this node can be asked. From then on, the
// worker's status page shows its collectives (docs/development/decisions/0041-pytorch-shows-its-collectives.md).
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/unique_fd.h"
#include "launcher/run/process/tool_run.h"
#include "launcher/run/ranks/rank_probe.h"
#include "launcher/start/log/log_line.h"
#include "net/event_loop.h"

namespace ddp::launcher {

// There is one object per attempt. It is used only from the event loop's thread. Its destructor ends the reader and
// removes the workers' files.
class TorchWatch {
 public:
  TorchWatch(net::EventLoop& loop, RankProbe& probe, int first_rank, LogWriter log)
      : loop_(loop), probe_(probe), first_rank_(first_rank), log_(std::move(log)) {}
  ~TorchWatch();
  TorchWatch(const TorchWatch&) = delete;
  TorchWatch& operator=(const TorchWatch&) = delete;

  // `file` is the prefix of the worker's files, or empty if it has none. Call this as soon as the worker is started.
  void watches(int local_rank, const std::string& file);

  // Call this often. While no reader runs, it checks for the files at intervals.
  void poll(std::chrono::steady_clock::time_point now);

  // Warns once if the PyTorch of a worker cannot be asked. poll() calls this, too.
  void report_failure();

  // Call this if poll() is not called any more.
  void end();

 private:
  // A worker that crashes waits until the reader has its last calls. It does so only while the launcher holds its pipe.
  struct CrashPipe {
    base::UniqueFd pipe;
    std::chrono::steady_clock::time_point unread_since{};  // zero if all has been read
  };

  void start();
  void remove_pipes();
  bool is_reader_stuck(std::chrono::steady_clock::time_point now);

  net::EventLoop& loop_;
  RankProbe& probe_;
  const int first_rank_;
  const LogWriter log_;
  std::map<int, std::string> files_;  // by local rank
  std::map<int, CrashPipe> pipes_;    // by local rank
  std::chrono::steady_clock::time_point next_{};
  std::unique_ptr<ToolRun> reader_;
  bool has_ended_ = false;
  bool has_failed_ = false;
  bool has_reported_ = false;
};

}  // namespace ddp::launcher

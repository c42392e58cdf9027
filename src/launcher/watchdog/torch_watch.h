// TorchWatch: starts ddp_torch_reader as soon as the PyTorch of a worker of this node can be asked. From then on its
// collectives are on its status page (docs/development/decisions/0041-pytorch-shows-its-collectives.md).
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "launcher/process/process_host.h"
#include "launcher/watchdog/stacks/tool_run.h"
#include "net/event_loop.h"

namespace ddp::launcher {

// Of one attempt; belongs to the loop's thread. The reader ends with it, and the workers' files are removed.
class TorchWatch {
 public:
  TorchWatch(net::EventLoop& loop, ProcessHost& processes) : loop_(loop), processes_(processes) {}
  ~TorchWatch();
  TorchWatch(const TorchWatch&) = delete;
  TorchWatch& operator=(const TorchWatch&) = delete;

  // `file` begins the names of the worker's files; empty: it has none.
  void watches(int local_rank, const std::string& file);

  // To be called often. Looks for the files now and then while no reader runs.
  void look(std::chrono::steady_clock::time_point now);

 private:
  void start();

  net::EventLoop& loop_;
  ProcessHost& processes_;
  std::map<int, std::string> files_;  // by local rank
  std::chrono::steady_clock::time_point next_{};
  std::unique_ptr<ToolRun> reader_;
  bool has_failed_ = false;
};

}  // namespace ddp::launcher

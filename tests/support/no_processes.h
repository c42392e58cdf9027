// NoProcesses is a ProcessHost that starts nothing. Tests override the functions that they need.
#pragma once

#include "launcher/run/process/process_host.h"

namespace ddp::launcher {

class NoProcesses : public ProcessHost {
 public:
  base::Result<pid_t, StartFailure> spawn(int, const WorkerSpec&, const WorkerDescriptors&) override {
    return StartFailure{125, ""};
  }
  void on_exit(ExitCallback) override {}
  bool signal(int, int, SignalTarget) override { return true; }
  std::vector<pid_t> end_leftovers() override { return {}; }
};

}  // namespace ddp::launcher

// ProcessHost starts, signals and ends the processes of this node. Tests have their own implementation.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/exit_status.h"
#include "base/result.h"
#include "launcher/run/process/launcher_signals.h"
#include "launcher/run/process/worker_cgroup.h"
#include "launcher/run/process/worker_spec.h"
#include "launcher/start/plan/start_failure.h"
#include "net/event_loop.h"

namespace ddp::launcher {

class Preloader;

struct WorkerExit {
  base::ExitStatus status;
  std::uint64_t peak_rss_bytes = 0;  // peak of the largest of its processes that it waited for
};

class ProcessHost {
 public:
  using ExitCallback = std::function<void(int local_rank, const WorkerExit& exit)>;

  virtual ~ProcessHost() = default;

  // Starts the worker. The callback is called once when it has ended. A worker has ended when its first process has
  // ended. If it had been asked to end (SIGTERM), the other processes of its group must have ended, too. They get
  // SIGTERM when the first one is gone.
  virtual base::Result<pid_t, StartFailure> spawn(int local_rank, const WorkerSpec& spec,
                                                  const WorkerDescriptors& inherited) = 0;
  virtual void on_exit(ExitCallback callback) = 0;
  // Returns whether workers should not be started yet.
  virtual bool is_preparing() const { return false; }

  // Does nothing if the worker has ended: a pid is signalled only while it cannot belong to another process. Returns
  // false if the kernel refused the signal, because the worker runs as another user.
  virtual bool signal(int local_rank, int signal, SignalTarget target) = 0;

  // Returns processes of the job that run although the workers have ended.
  virtual std::vector<pid_t> leftovers() { return {}; }
  // Returns the running processes of the worker, or an empty list if it has ended. Processes whose parents have ended
  // are included for every worker, because it is unknown which worker left them.
  virtual std::vector<pid_t> processes_of(int /*local_rank*/) { return {}; }

  // Kills the processes that the workers left behind. Blocks for at most limits::kLeftoverWait. Returns those that
  // could not be killed.
  virtual std::vector<pid_t> end_leftovers() = 0;

  // Returns whether a stopped worker waited for input of a terminal that belongs to another process group now.
  virtual bool lacks_terminal() { return false; }
};

// Returns a host for processes of this node. It waits for them by pidfd on `loop` (by SIGCHLD if the kernel has no
// pidfds). They join `cgroup`, unless it is null. They are forked from `preloader`, unless it is null or cannot do so.
std::unique_ptr<ProcessHost> make_process_host(net::EventLoop& loop, const WorkerCgroup* cgroup,
                                               Preloader* preloader = nullptr);

}  // namespace ddp::launcher

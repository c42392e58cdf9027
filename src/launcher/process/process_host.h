// ProcessHost: the edge to the operating system's processes. A seam: tests have their own.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/exit_status.h"
#include "base/result.h"
#include "launcher/plan/start_failure.h"
#include "launcher/process/rank_view.h"
#include "launcher/process/worker_cgroup.h"
#include "launcher/process/worker_spec.h"
#include "net/event_loop.h"

namespace ddp::launcher {

enum class SignalTarget { leader, group };

struct WorkerExit {
  base::ExitStatus status;
  std::uint64_t peak_rss_bytes = 0;  // of the largest of its processes that it waited for
};

class ProcessHost {
 public:
  using ExitCallback = std::function<void(int local_rank, const WorkerExit& exit)>;

  virtual ~ProcessHost() = default;

  // Starts the worker, whose output goes to these descriptors (-1: to ours). Its end is told to the callback, once:
  // when its first process has ended and, if it had been asked to end (SIGTERM), the others of its process group too.
  // Those get SIGTERM when the first one is gone.
  virtual base::Result<pid_t, StartFailure> spawn(int local_rank, const WorkerSpec& spec, int out, int err) = 0;
  virtual void on_exit(ExitCallback callback) = 0;

  // Nothing happens if the worker has ended: a pid is signalled only while it cannot belong to anybody else. Returns
  // false if the kernel refused the signal, because the worker runs as another user.
  virtual bool signal(int local_rank, int signal, SignalTarget target) = 0;

  // Tells all workers by their pages that the failure of this rank ends the job.
  virtual void mark_peer_lost(int /*rank*/) {}
  // Processes of the job that run although the workers have ended.
  virtual std::vector<pid_t> leftovers() { return {}; }
  // Asks all programs to save and to leave.
  virtual void request_stop() {}

  // Brings up to date what the worker is at, or was at its end; no pid if it was never started. False if nothing has
  // changed since `view` was brought up to date for the last time, and only pages are looked at.
  virtual bool sample(int /*local_rank*/, SampleDepth /*depth*/, RankView& /*view*/) { return false; }

  // The descriptor of its status page; -1: it has ended, or has none.
  virtual int page_of(int /*local_rank*/) { return -1; }

  // The processes of the worker that run, those included whose parents have ended: which worker left them is not known,
  // so that they are every worker's. Empty if it has ended.
  virtual std::vector<pid_t> processes_of(int /*local_rank*/) { return {}; }

  // Asks all threads of the worker's program where they are, by a signal, if such means are allowed; and the answers so
  // far.
  virtual StackRequest ask_for_stacks(int /*local_rank*/, StackMeans /*means*/) { return {"", 0, {}, 0}; }
  virtual std::vector<RawStack> stacks(int /*local_rank*/) { return {}; }

  // Kills what the workers left behind. Blocks for at most limits::kLeftoverWait. Returns what could not be killed.
  virtual std::vector<pid_t> end_leftovers() = 0;
};

// Processes of this node, waited for by pidfd on `loop` (by SIGCHLD where the kernel has no pidfds). They join
// `cgroup`, unless it is null.
std::unique_ptr<ProcessHost> make_process_host(net::EventLoop& loop, const WorkerCgroup* cgroup);

}  // namespace ddp::launcher

// WorkerGroup: this node's workers, as the job's lifecycle handles them: their processes, files and output.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "launcher/job/error_record.h"
#include "launcher/log/log_line.h"
#include "launcher/output/output_pump.h"
#include "launcher/plan/placement.h"
#include "launcher/process/memory_events.h"
#include "launcher/process/process_host.h"
#include "launcher/process/run_directory.h"
#include "store/server/store_ranks.h"

namespace ddp::launcher {

struct StartedWorker {
  pid_t pid = 0;
  std::vector<std::string> environment;  // "NAME=value"
};

// What is left when all workers have ended.
struct Remains {
  std::vector<pid_t> leftovers;  // other processes of the job that cannot be killed
  std::int64_t lost_lines = 0;   // that the console did not take, and of which it could not be told
};

// Belongs to the loop's thread. A seam: the simulation has its own.
class WorkerGroup {
 public:
  virtual ~WorkerGroup() = default;

  // An attempt: its files are made. `last_failure`: of the attempt before, for the workers; empty: this is the first.
  virtual std::optional<base::Failure> begin(const Placement& placement, const std::string& last_failure) = 0;
  virtual base::Result<StartedWorker, StartFailure> start(int local_rank) = 0;
  // Called once for each worker that was started, when it has ended.
  virtual void on_exit(ProcessHost::ExitCallback callback) = 0;
  // Returns false if the kernel refused the signal, because the worker runs as another user.
  virtual bool signal(int local_rank, int signal, SignalTarget target) = 0;
  // Tells the workers that the failure of this rank ends the job.
  virtual void mark_peer_lost(int rank) = 0;
  // Asks the programs to save and to leave.
  virtual void request_stop() = 0;
  // What a worker has written about its failure.
  virtual std::optional<ErrorRecord> error_of(int local_rank) = 0;
  // The exception that a Python program has printed.
  virtual std::optional<PythonError> printed_error_of(int local_rank) = 0;
  // Whether the kernel has killed for want of memory since the last call.
  virtual std::optional<OomKill> new_oom_kill() = 0;
  // All workers are dead: kills what they left behind and shows the rest of their output. Blocks for a bounded time, or
  // until `interrupted`, which is asked now and then. After success what is left is named first, and with --let-finish
  // waited for.
  virtual Remains end(const std::function<bool()>& interrupted, bool has_succeeded) = 0;

  // The sockets of the workers that run: see store::StoreServerOptions.
  virtual std::vector<store::RankedSocket> sockets() const = 0;

  // The workers' output goes elsewhere: see OutputPump::redirect().
  virtual void print_elsewhere(std::function<std::optional<std::size_t>(int which, std::string_view bytes)> take,
                               std::function<int()> waits_for) = 0;
  virtual void room_elsewhere() = 0;
  // Output of another node's workers, in pieces. `node`: its connection; `which`: kStdout or kStderr.
  virtual void show_of_node(std::uint64_t node, int which, std::string_view bytes) = 0;
  // No output comes any more; shows what waits. Blocks for a bounded time.
  virtual void finish_output() = 0;
};

// All of it must outlive the group.
std::unique_ptr<WorkerGroup> make_worker_group(ProcessHost& processes, const LaunchPlan& plan, RunDirectory& directory,
                                               OutputPump& output, std::function<void()> poll, LogWriter log);

}  // namespace ddp::launcher

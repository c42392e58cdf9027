// WorkerGroup manages this node's workers for the job's lifecycle: their processes, files and output.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "launcher/run/job/error_record.h"
#include "launcher/run/output/output_pump.h"
#include "launcher/run/process/memory_events.h"
#include "launcher/run/process/process_host.h"
#include "launcher/run/process/run_directory.h"
#include "launcher/run/process/state_memory.h"
#include "launcher/run/ranks/rank_probe.h"
#include "launcher/start/log/log_line.h"
#include "launcher/start/plan/placement.h"
#include "store/server/store_ranks.h"

namespace ddp::launcher {

struct StartedWorker {
  pid_t pid = 0;
  std::vector<std::string> environment;  // "NAME=value" lines
};

// Describes what is left when all workers have ended.
struct Remains {
  std::vector<pid_t> leftovers;  // other processes of the job that cannot be killed
  std::int64_t lost_lines = 0;   // lines that the console did not accept, and whose loss was not reported
};

// Belongs to the loop's thread. It is an interface because the simulation has its own implementation.
class WorkerGroup {
 public:
  virtual ~WorkerGroup() = default;

  // Begins an attempt and creates its files. `last_failure` describes the failure of the previous attempt, for the
  // workers. It is empty in the first attempt.
  virtual std::optional<base::Failure> begin(const Placement& placement, const std::string& last_failure) = 0;
  virtual base::Result<StartedWorker, StartFailure> start(int local_rank) = 0;
  // Returns whether the attempt should not begin yet.
  virtual bool is_preparing() const { return false; }
  // The callback is called once for each worker that was started, when it has ended.
  virtual void on_exit(ProcessHost::ExitCallback callback) = 0;
  // Returns false if the kernel refused the signal, because the worker runs as another user.
  virtual bool signal(int local_rank, int signal, SignalTarget target) = 0;
  // Notifies the workers that the failure of this rank ends the job.
  virtual void mark_peer_lost(int rank) = 0;
  // Asks the programs to save and to leave.
  virtual void request_stop() = 0;
  // Asks the programs to keep the state of the last finished step, and returns whether all of these workers have done
  // so, as far as they can. kept_states() returns what is kept. check_states() says how much memory is left, and
  // begins to write what is kept to --image-dir.
  virtual void ask_for_states() {}
  virtual void check_states() {}
  virtual bool have_kept_states(std::span<const int> /*local_ranks*/) { return true; }
  virtual std::vector<wire::KeptState> kept_states() { return {}; }
  // Returns what a worker has written about its failure.
  virtual std::optional<ErrorRecord> error_of(int local_rank) = 0;
  // The same for a worker that has ended, which may have printed its exception instead, or may have been terminated
  // while it handled one.
  virtual std::optional<ErrorRecord> error_at_end(int local_rank, const base::ExitStatus& status) = 0;
  // Returns where the Python program of a worker was that a fault has ended, or an empty string if that is unknown or
  // if something else has ended it. A child of it may have crashed before.
  virtual std::string crash_place_of(int local_rank, const base::ExitStatus& status) = 0;
  // Returns the UUID of the GPU that the worker uses or used, as its page shows it. Returns an empty text if it is
  // unknown.
  virtual std::string gpu_of(int /*local_rank*/) { return ""; }
  // Returns the kill if the kernel has killed a process for lack of memory since the last call.
  virtual std::optional<OomKill> new_oom_kill() = 0;
  // Must be called when all workers are dead. Kills the processes that they left behind, and shows the rest of their
  // output. Blocks for a bounded time, or until `interrupted` returns true. After success, the remaining processes are
  // named first, and with --let-finish they are waited for.
  virtual Remains end(const std::function<bool()>& interrupted, bool has_succeeded) = 0;

  // Returns the sockets of the running workers: see store::StoreServerOptions.
  virtual std::vector<store::RankedSocket> sockets() const = 0;

  // Redirects the workers' output: see OutputPump::redirect().
  virtual void print_elsewhere(std::function<std::optional<std::size_t>(int which, std::string_view bytes)> take,
                               std::function<int()> waits_for) = 0;
  virtual void room_elsewhere() = 0;
  // Shows a piece of output of another node's workers. `node` is its connection, and `which` is kStdout or kStderr.
  virtual void show_of_node(std::uint64_t node, int which, std::string_view bytes) = 0;
  // Writes what is kept to --image-dir unless the workers have succeeded. Blocks for a bounded time, or until
  // `interrupted` returns true.
  virtual void finish_images(const std::function<bool()>& /*interrupted*/) {}
  // Shows the output that still waits; no more may follow. Blocks for a bounded time.
  virtual void finish_output() = 0;
};

// Returns whether one of these workers, which have not ended, wrote a record before this one. Python may end slowly
// after an exception, and the ranks that lost the failing one may be faster.
bool another_failed_before(WorkerGroup& workers, std::span<const int> alive, const std::optional<ErrorRecord>& record);

// All arguments must outlive the group.
std::unique_ptr<WorkerGroup> make_worker_group(ProcessHost& processes, RankProbe& probe, const LaunchPlan& plan,
                                               RunDirectory& directory, OutputPump& output, std::function<void()> poll,
                                               LogWriter log);

}  // namespace ddp::launcher

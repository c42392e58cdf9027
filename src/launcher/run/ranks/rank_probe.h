// RankProbe reads what the workers of this node show of themselves: their status pages and rings of records, and the
// state of their programs.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "launcher/run/process/worker_spec.h"
#include "launcher/run/ranks/rank_view.h"
#include "launcher/run/ranks/record_ring.h"
#include "launcher/run/ranks/worker_page.h"

namespace ddp::launcher {

// What a worker has shown can be read after its end, too, until the next worker of its local rank is opened. Tests
// override what they need.
class RankProbe {
 public:
  virtual ~RankProbe() = default;

  // Makes the page and the ring of a worker that is started next. descriptors() returns the same later. Their owner is
  // the probe.
  WorkerDescriptors open(int local_rank, const WorkerSpec& spec);
  void started(int local_rank, pid_t pid) { workers_.at(local_rank).pid = pid; }
  void ended(int local_rank) { workers_.at(local_rank).has_ended = true; }
  WorkerDescriptors descriptors(int local_rank) const;

  // Updates `view` to the state of the worker, now or at its end. `view` has no pid if the worker was never started.
  // Returns false if only pages are sampled, and nothing has changed since the last update of `view`.
  virtual bool sample(int local_rank, SampleDepth depth, RankView& view);

  // take_records() returns what the worker has recorded since the last call. discard_records() removes the records,
  // without counting them as dropped.
  virtual RankRecords take_records(int local_rank);
  virtual void discard_records(int local_rank);
  // Returns the values that the program has reported with its progress.
  std::vector<ProgressValue> progress_values(int local_rank) const;

  // ask_for_stacks() asks all threads of the worker's program where they are, by a signal, if `means` allows that.
  // stacks() returns the answers so far.
  virtual StackRequest ask_for_stacks(int local_rank, StackMeans means);
  virtual std::vector<RawStack> stacks(int local_rank);

  // Returns the ranks of the running workers, with their first processes.
  std::vector<std::pair<int, pid_t>> running() const;

  // Notifies all running workers, through their pages, that the failure of this rank ends the job.
  void mark_peer_lost(int rank) const;
  // Asks all running programs to save and to exit.
  void request_stop() const;

 private:
  struct Worker {
    int rank = 0;
    pid_t pid = 0;  // 0 until it is started
    bool has_ended = false;
    WorkerPage page;
    RecordRing ring;
  };

  static RankView view_of(const Worker& worker, SampleDepth depth, std::uint64_t seen_at);
  // Returns the worker, which may have ended, or null if it was never started.
  const Worker* find(int local_rank) const;

  std::map<int, Worker> workers_;  // by local rank
};

}  // namespace ddp::launcher

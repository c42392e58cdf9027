// RankProbe reads what the workers of this node show of themselves: their status pages and rings of records, and the
// state of their programs. The base class shows nothing, and tests override the functions that they need.
#pragma once

#include <sys/types.h>

#include <memory>
#include <vector>

#include "launcher/process/worker_spec.h"
#include "launcher/ranks/rank_records.h"
#include "launcher/ranks/rank_view.h"

namespace ddp::launcher {

// What a worker has shown can be read after its end, too, until the next worker of its local rank is opened.
class RankProbe {
 public:
  virtual ~RankProbe() = default;

  // Makes the page and the ring of a worker that is started next. descriptors() returns the same later. Their owner is
  // the probe.
  virtual WorkerDescriptors open(int /*local_rank*/, const WorkerSpec& /*spec*/) { return {}; }
  virtual void started(int /*local_rank*/, pid_t /*pid*/) {}
  virtual void ended(int /*local_rank*/) {}
  virtual WorkerDescriptors descriptors(int /*local_rank*/) { return {}; }

  // Updates `view` to the state of the worker, now or at its end. `view` has no pid if the worker was never started.
  // Returns false if only pages are sampled, and nothing has changed since the last update of `view`.
  virtual bool sample(int /*local_rank*/, SampleDepth /*depth*/, RankView& /*view*/) { return false; }

  // take_records() returns what the worker has recorded since the last call. discard_records() removes the records,
  // without counting them as dropped.
  virtual RankRecords take_records(int /*local_rank*/) { return {}; }
  virtual void discard_records(int /*local_rank*/) {}
  // Returns the values that the program has reported with its progress.
  virtual std::vector<ProgressValue> progress_values(int /*local_rank*/) { return {}; }

  // ask_for_stacks() asks all threads of the worker's program where they are, by a signal, if `means` allows that.
  // stacks() returns the answers so far.
  virtual StackRequest ask_for_stacks(int /*local_rank*/, StackMeans /*means*/) { return {"it has exited", 0, {}, 0}; }
  virtual std::vector<RawStack> stacks(int /*local_rank*/) { return {}; }

  // Notifies all running workers, through their pages, that the failure of this rank ends the job.
  virtual void mark_peer_lost(int /*rank*/) {}
  // Asks all running programs to save and to exit.
  virtual void request_stop() {}
};

std::unique_ptr<RankProbe> make_rank_probe();

}  // namespace ddp::launcher

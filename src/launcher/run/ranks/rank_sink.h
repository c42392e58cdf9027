// RankSink receives all that the watchdog sees of the ranks, for the views of the job.
#pragma once

#include "launcher/run/ranks/picture.h"
#include "launcher/run/ranks/rank_records.h"

namespace ddp::launcher {

// Used only from the event loop's thread. No function may block.
class RankSink {
 public:
  virtual ~RankSink() = default;

  // Adds a picture of all ranks that this node sees: its own and, at the coordinator, those of all nodes. It is called
  // up to 20 times per second.
  virtual void add(const Picture& picture) = 0;
  // Adds the records of one rank that are new since the last call.
  virtual void add_records(const RankRecords& records) = 0;

  // Returns whether a view wants the processes' CPU time and memory and the GPUs' use, about once per second.
  virtual bool wants_processes() const = 0;
  // Returns whether a view wants the records.
  virtual bool wants_records() const = 0;
};

}  // namespace ddp::launcher

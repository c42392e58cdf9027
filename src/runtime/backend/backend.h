// Backend: what carries the bytes of collectives. One object serves one process group on one rank.
#pragma once

#include <ddp/memory.h>
#include <ddp/store.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/group/call.h"

namespace ddp {

class HostGroup;

struct BackendOptions {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  std::chrono::milliseconds timeout{0};  // of the meeting of all ranks
  std::string machine;                   // ranks with the same one are on one machine; empty: found out
  std::shared_ptr<HostGroup> host;       // the ranks of this machine, when they have met
};

// Arguments have been checked: counts fit, types suit the operation, nothing is empty but where ranks may give
// different counts. Collectives come one at a time, in the group's order, from any thread; sends and receives come from
// other threads at the same time, one at a time for each other rank and direction. A failure is an Error: `peer_lost`,
// `timeout`, `mismatch`, `unavailable` (the backend cannot do this at all), `internal`; it names the peer where it can.
// After it no collective follows.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;

  // Does of a collective what needs no waiting, on the caller's thread, at once when it is called; no collective is
  // unfinished then. True: the other ranks can complete theirs without this rank's run(), so nobody needs to hurry to
  // call it. run() follows in any case.
  virtual bool begin(const Call& /*call*/) { return false; }

  // Blocks until the operation is complete on this rank.
  virtual void run(const Call& call) = 0;

  // From any thread, at any time: what runs ends soon, with `aborted` or another failure.
  virtual void abort() {}

  // Memory that the backend can work on best, of zeros. From any thread.
  virtual std::shared_ptr<void> allocate(std::size_t bytes);
};

}  // namespace ddp

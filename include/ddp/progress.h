// What this process is at, shown to whoever supervises it: a rank that does something long is then no rank that hangs.
#pragma once

#include <ddp/call_site.h>
#include <ddp/export.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <string_view>

namespace ddp {

class ProcessGroup;

// `starting` to `training`, `finishing` and `done` are shown by the library itself, as are a CheckpointManager's
// checkpoints.
enum class Phase : std::uint32_t {
  starting,
  connected,     // to the store
  rendezvous,    // with the other ranks
  communicator,  // the backend connects
  training,
  evaluation,
  checkpoint,
  data_loading,
  finishing,
  done,
};

// A phase, and what the program says of it.
struct PhasePlace {
  Phase phase = Phase::starting;
  std::array<char, 48> name = {};
  CallSite site;
};

// While it lives, this process is in `phase`: ddplaunch says so if other ranks wait for it. Its beginning and its end
// are progress: --hang-timeout counts from there. Sections may be nested; the innermost counts. One thread. Costs less
// than a microsecond; nothing without ddplaunch.
//
//   { const ddp::PhaseScope section(ddp::Phase::evaluation, "validation set"); evaluate(); }
class [[nodiscard]] DDP_EXPORT PhaseScope {
 public:
  explicit PhaseScope(Phase phase, std::string_view name = "", CallSite site = CallSite::current());
  ~PhaseScope();
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  const PhasePlace before_;
};

// A sign of life between collectives, as after each step of a program that synchronises rarely. Any thread.
DDP_EXPORT void heartbeat();

// Whether the program has been asked to save and to leave (ddplaunch --save-grace): a preemption, or an operator. Ranks
// may see it at different steps, so a program whose ranks must agree uses the function below. Any thread; costs some
// nanoseconds. False without ddplaunch.
DDP_EXPORT bool should_stop();

// The same answer on all ranks of the group: whether any of them has been asked. A collective of 8 bytes a rank.
DDP_EXPORT bool should_stop(const ProcessGroup& group);

// How far the program is: steps that are done, of so many in all (0: not known). Reports show it, and it is progress as
// a heartbeat is. Any thread.
DDP_EXPORT void report_progress(std::uint64_t done, std::uint64_t total = 0);

// This process is about to do something that may take so long: until then ddplaunch does not take it for one that
// hangs. Any thread; the latest moment that was asked for counts.
DDP_EXPORT void request_more_time(std::chrono::seconds time);

}  // namespace ddp

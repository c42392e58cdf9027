// These functions report the progress of this process to its launcher, so that a rank in a long phase is not regarded
// as hanging.
#pragma once

#include <ddp/call_site.h>
#include <ddp/export.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

namespace ddp {

class ProcessGroup;

// The library itself reports `starting` to `training`, `finishing` and `done`. A CheckpointManager reports its
// checkpoints.
enum class Phase : std::uint32_t {
  starting,
  connected,     // connected to the store
  rendezvous,    // waiting for the other ranks
  communicator,  // the backend connects
  training,
  evaluation,
  checkpoint,
  data_loading,
  finishing,
  done,
};

// Holds a phase and the text and place in the program that describe it.
struct PhasePlace {
  Phase phase = Phase::starting;
  std::array<char, 48> name = {};
  CallSite site;
};

// While it lives, this process is in `phase`. ddplaunch reports the phase if other ranks wait for this process. Its
// beginning and its end count as progress, from which --hang-timeout counts. Phases may be nested, and the innermost
// counts. Use it from one thread. It costs less than a microsecond, and does nothing without ddplaunch.
//
//   { const ddp::PhaseScope phase(ddp::Phase::evaluation, "validation set"); evaluate(); }
class [[nodiscard]] DDP_EXPORT PhaseScope {
 public:
  explicit PhaseScope(Phase phase, std::string_view name = "", CallSite site = CallSite::current());
  ~PhaseScope();
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  const PhasePlace before_;
};

// Reports progress between collectives, for example after each step of a program that synchronises rarely. Any thread
// may call it.
DDP_EXPORT void heartbeat();

// Returns whether ddplaunch has asked the program to save and to exit (--save-grace), because of a preemption or an
// operator. Ranks may see the request at different steps, so a program whose ranks must agree uses the function below.
// Any thread may call it, and it takes some nanoseconds. Without ddplaunch it returns false.
DDP_EXPORT bool should_stop();

// Returns the same answer on all ranks of the group: whether any of them has been asked. It is a collective of 8 bytes
// per rank.
DDP_EXPORT bool should_stop(const ProcessGroup& group);

// Holds a value that a program reports with its progress, such as the loss.
struct ProgressValue {
  std::string_view name;  // ddplaunch shows its first 23 bytes
  double value = 0;       // may be infinite or NaN
};

// Reports how many steps are done, their total number (0 if unknown), and up to 8 values. ddplaunch shows them in its
// progress line, its live view and its reports. The call counts as progress, like a heartbeat. Any thread may call it.
// It costs less than a microsecond, and does nothing without ddplaunch.
//
//   ddp::progress(step, total, {{"loss", loss}});
//
// A call without values leaves the previous ones in place.
//
// ddplaunch measures steps. If the program neither has a DistributedDataParallel nor calls heartbeat(), a call with a
// larger `step` than before ends a step. Otherwise the program's steps are counted already, and this call counts none.
DDP_EXPORT void progress(std::uint64_t step, std::uint64_t total, std::span<const ProgressValue> values);
inline void progress(std::uint64_t step, std::uint64_t total = 0, std::initializer_list<ProgressValue> values = {}) {
  progress(step, total, std::span(values.begin(), values.size()));
}

// Does the same as progress() without values.
DDP_EXPORT void report_progress(std::uint64_t done, std::uint64_t total = 0);

// Announces that this process may be busy for `time`. Until then ddplaunch does not regard it as hanging. Any thread
// may call it. If it is called repeatedly, the latest moment counts.
DDP_EXPORT void request_more_time(std::chrono::seconds time);

}  // namespace ddp

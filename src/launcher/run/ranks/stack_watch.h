// StackWatch finds out which operations this node's PyTorch programs wait for if PyTorch does not record them. It reads
// the stacks of their first threads (docs/development/decisions/0043-stacks-of-pytorch-programs.md).
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/run/ranks/rank_probe.h"
#include "launcher/run/ranks/rank_view.h"
#include "launcher/run/ranks/stack_taker.h"
#include "launcher/run/ranks/torch_stacks.h"
#include "launcher/start/plan/placement.h"
#include "net/event_loop.h"

namespace ddp::launcher {

// There is one object per attempt. It is used only from the event loop's thread.
class StackWatch {
 public:
  StackWatch(net::EventLoop& loop, RankProbe& probe, const Placement& placement)
      : probe_(probe), taker_(loop, probe), first_rank_(placement.first_rank), size_(placement.world_size) {}

  // `file` is the prefix of the worker's files, or empty if it has none.
  void watches(int local_rank, const std::string& file);

  // Call this often. About once per second, it checks which first threads have run, and takes the stacks of those that
  // have rested for limits::kStackRest. Once per rest is enough: a thread that does not run does not move.
  void poll(std::chrono::steady_clock::time_point now);

  // Adds to `view`, which has just been sampled at this depth, the operation that its rank waits for. Returns whether
  // that is a change.
  bool add_to(int local_rank, SampleDepth depth, RankView& view);

 private:
  using Clock = std::chrono::steady_clock;
  struct Program {
    std::string file;
    bool has_group = false;        // the program has made a process group
    bool has_recording = false;    // its page shows calls
    bool records_nothing = false;  // an older PyTorch, without recorders
    std::uint64_t waits = 0;       // how often its first thread has gone to sleep
    // The first thread sleeps, or it spins as CUDA does while it waits for a GPU.
    std::optional<Clock::time_point> rests_since;
    bool spins = false;
    int stacks_taken = 0;       // how often its stack was taken in this rest
    bool is_inspected = false;  // its stack need not be taken again in this rest
    Clock::time_point inspected_at{};
    std::vector<std::string> frames;  // of a spinning thread's wait, when its stack was taken last
    AwaitedOperation awaited;
    PythonCall call;

    void runs(std::uint64_t number_of_waits) {
      waits = number_of_waits;
      rests_since.reset();
      is_inspected = false;
      stacks_taken = 0;
      frames.clear();
      awaited = {};
      call = {};
    }
    bool has_rested(Clock::time_point now) const;
    bool is_due(Clock::time_point now) const;
    // Returns whether the first thread is not known to wait for a process group. If its stack cannot be read, it counts
    // as waiting.
    bool is_elsewhere() const { return !is_inspected || awaited.wait == GroupWait::none; }
    void add(const RankStacks& native, Clock::time_point now);
    // Returns whether the program waits for an operation that PyTorch's recorder does not show.
    bool waits_unrecorded() const {
      return awaited.wait == GroupWait::operation && !(has_recording && is_recorded(awaited.operation));
    }
  };

  bool may_wait_beside_others(const Program& program) const;
  void follow(int local_rank, Program& program, Clock::time_point now);
  void take(const std::vector<StackTarget>& targets, Clock::time_point now);
  void take_lines(Clock::time_point began);
  void took(Clock::time_point began);

  static constexpr int kRestOfTime = 20;  // stacks may be taken for a twentieth of the time
  // On a busy computer a tool takes many seconds and little time of a CPU. A hang must still be found soon.
  static constexpr std::chrono::minutes kLongestPause{1};

  RankProbe& probe_;
  StackTaker taker_;
  const int first_rank_;
  const int size_;
  std::map<int, Program> programs_;  // by local rank
  Clock::time_point next_{};
  Clock::time_point not_before_{};
};

}  // namespace ddp::launcher

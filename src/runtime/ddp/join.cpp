#include <ddp/error.h>
#include <ddp/join.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/text.h"
#include "runtime/call/called_from.h"
#include "runtime/ddp/data_parallel_engine.h"

namespace ddp {

using namespace internal;

Join::Join(const DistributedDataParallel& data_parallel, std::function<void()> step, JoinOptions options)
    : data_parallel_(data_parallel), step_(std::move(step)), options_(options) {
  if (!step_) data_parallel.engine().require_compatible(Feature::join_without_step);
  data_parallel.engine().begin_join();
}

Join::~Join() {
  data_parallel_.engine().end_join();
}

// All ranks announce their next turn. A rank that has ended announces how many steps of its window are not synchronised
// yet.
Join::Round Join::announce(Turn turn, std::int64_t window_steps) {
  const ProcessGroup& group = data_parallel_.group();
  std::array<std::int64_t, 2> mine = {static_cast<std::int64_t>(turn), window_steps};
  std::vector<std::int64_t> all(2 * static_cast<std::size_t>(group.size()));
  group.all_gather(all, mine, {.name = "which ranks have data"}).wait();
  ++steps_;
  Round round;
  std::vector<int> active;
  std::vector<int> ended;
  std::vector<int> local;
  std::int64_t steps = 0;  // steps of all ranks that are averaged now
  for (int rank = 0; rank < group.size(); ++rank) {
    const auto theirs = static_cast<Turn>(all[2 * static_cast<std::size_t>(rank)]);
    (theirs == Turn::ended ? ended : active).push_back(rank);
    if (theirs == Turn::local) local.push_back(rank);
    const std::int64_t theirs_in_window = all[2 * static_cast<std::size_t>(rank) + 1];
    round.window_steps = std::max(round.window_steps, theirs_in_window);
    steps += theirs_in_window;
  }
  if (!options_.divide_by_initial_size && round.window_steps > 0) {
    data_parallel_.engine().divide_by(static_cast<double>(steps) / static_cast<double>(round.window_steps));
  }
  if (active.empty()) return round;
  active_ = active;
  if (options_.throw_on_early_end && !ended.empty()) {
    throw Error(ErrorKind::aborted, base::ranks_text(ended, "has", "have") + " no more data at step " +
                                        std::to_string(steps_) +
                                        " while others do (throw_on_early_end). Give all ranks the same number of "
                                        "batches, for example with DistributedSampler and drop_last.");
  }
  if (!local.empty() && local.size() != active.size()) {
    throw Error(ErrorKind::mismatch, "in step " + std::to_string(steps_) + " " + base::ranks_text(local, "does", "do") +
                                         " not synchronise (no_sync, accumulate), but the others do. With Join, "
                                         "windows must end in the same step on all ranks: call Accumulation::begin() "
                                         "without is_last.");
  }
  if (options_.broadcast_buffers || data_parallel_.engine().forward_broadcasts_buffers()) {
    data_parallel_.broadcast_buffers(active_.back());
  }
  round.turn = local.empty() ? Turn::synchronised : Turn::local;
  return round;
}

void Join::begin_step(CallSite site) {
  const CalledFrom here(site);
  if (ended_) refuse("Join::begin_step: called after finish()");
  data_parallel_.engine().require_compatible(Feature::joined_step);
  if (data_parallel_.engine().step_began()) {
    refuse("Join::begin_step: gradients of this step were marked ready. Call it before backward.");
  }
  const Turn turn = data_parallel_.synchronizes() ? Turn::synchronised : Turn::local;
  announce(turn, turn == Turn::synchronised ? data_parallel_.engine().mode().window.steps : 0);
}

void Join::shadow(std::int64_t window_steps) {
  data_parallel_.engine().shadow_step(window_steps);
  if (step_) step_();
}

void Join::finish(CallSite site) {
  const CalledFrom here(site);
  if (ended_) return;
  ended_ = true;
  while (true) {
    const Round round = announce(Turn::ended, data_parallel_.engine().local_steps());
    if (round.turn == Turn::synchronised) shadow(round.window_steps);
    if (round.turn != Turn::ended) continue;
    if (round.window_steps > 0 && step_) shadow(round.window_steps);
    break;
  }
  data_parallel_.engine().end_join();
  data_parallel_.engine().plan_window({});
  if (!step_) take_from_last();
}

// The ranks of the last step have trained to the end. The highest of them provides the values, as in PyTorch.
void Join::take_from_last() {
  if (active_.empty()) return;
  data_parallel_.engine().broadcast_parameters(active_.back());
  data_parallel_.broadcast_buffers(active_.back());
}

}  // namespace ddp

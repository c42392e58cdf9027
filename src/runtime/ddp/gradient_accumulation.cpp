#include <ddp/gradient_accumulation.h>

#include <string>

#include "runtime/call/called_from.h"
#include "runtime/ddp/data_parallel_engine.h"

namespace ddp {

using namespace internal;

NoSync::NoSync(const DistributedDataParallel& data_parallel) : data_parallel_(data_parallel) {
  data_parallel_.engine().begin_no_sync();
}

NoSync::~NoSync() {
  data_parallel_.engine().end_no_sync();
}

Accumulation::Accumulation(const DistributedDataParallel& data_parallel, std::int64_t micro_steps)
    : data_parallel_(data_parallel), micro_steps_(micro_steps) {
  if (micro_steps < 1) {
    refuse("accumulate: an accumulation window needs 1 micro-step or more, not " + std::to_string(micro_steps));
  }
  data_parallel.engine().begin_accumulation();
}

Accumulation::~Accumulation() {
  data_parallel_.engine().end_accumulation();
}

void Accumulation::begin(bool is_last) {
  data_parallel_.engine().require_compatible(Feature::open_window);
  if (data_parallel_.engine().step_began()) {
    refuse("Accumulation::begin: gradients were marked since the last finish(). Call finish() after each backward.");
  }
  if (is_open_) {
    const bool was_carried_out = data_parallel_.engine().finished_steps() != finished_before_;
    if (!was_carried_out) --done_;
    if (was_carried_out && synchronizes_) end_window();
  }
  if (done_ == 0) data_parallel_.zero_gradients();
  ++done_;
  is_open_ = true;
  finished_before_ = data_parallel_.engine().finished_steps();
  synchronizes_ = is_last || done_ == micro_steps_ || data_parallel_.engine().is_rehearsing();
  data_parallel_.engine().plan_window({synchronizes_, done_});
}

bool Accumulation::finish(CallSite site) {
  const CalledFrom here(site);
  if (done_ == 0) refuse("Accumulation::finish: no micro-step; call begin() first");
  if (data_parallel_.engine().finished_steps() == finished_before_) data_parallel_.finish();
  is_open_ = false;
  if (synchronizes_) end_window();
  return done_ == 0;
}

bool Accumulation::flush(CallSite site) {
  const CalledFrom here(site);
  if (is_open_ && data_parallel_.engine().finished_steps() == finished_before_) --done_;
  is_open_ = false;
  if (done_ == 0) return false;
  data_parallel_.engine().plan_window({true, done_});
  data_parallel_.engine().finish_step();
  end_window();
  return true;
}

void Accumulation::end_window() {
  done_ = 0;
  synchronizes_ = false;
  data_parallel_.engine().plan_window({});
}

}  // namespace ddp

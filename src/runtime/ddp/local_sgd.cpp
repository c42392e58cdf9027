#include <ddp/local_sgd.h>

#include <string>
#include <vector>

#include "runtime/call/called_from.h"
#include "runtime/ddp/data_parallel_engine.h"

namespace ddp {

using namespace internal;

LocalSgd::LocalSgd(const DistributedDataParallel& data_parallel, LocalSgdOptions options)
    : data_parallel_(data_parallel), options_(options) {
  if (options.period < 1 || options.warmup_steps < 0) {
    refuse("LocalSgd: period must be 1 or more (" + std::to_string(options.period) + "), warmup_steps 0 or more (" +
           std::to_string(options.warmup_steps) + ")");
  }
  data_parallel.engine().require_compatible(Feature::local_sgd);
  follow();
}

LocalSgd::~LocalSgd() {
  data_parallel_.engine().set_local(false);
}

bool LocalSgd::step(CallSite site) {
  const CalledFrom here(site);
  if (data_parallel_.engine().is_rehearsing()) return false;
  ++steps_[0];
  follow();
  const std::int64_t local_steps = steps_[0] - options_.warmup_steps;
  if (local_steps <= 0 || local_steps % options_.period != 0) return false;
  average();
  return true;
}

void LocalSgd::average(CallSite site) {
  const CalledFrom here(site);
  average_all(data_parallel_.group(), data_parallel_.parameters(), data_parallel_.engine().stream());
}

void LocalSgd::follow() {
  data_parallel_.engine().set_local(steps_[0] >= options_.warmup_steps);
}

}  // namespace ddp

#include <ddp/error.h>
#include <ddp/local_sgd.h>

#include <string>
#include <vector>

#include "runtime/call/called_from.h"

namespace ddp {

using namespace internal;

LocalSgd::LocalSgd(DistributedDataParallel& data_parallel, LocalSgdOptions options)
    : data_parallel_(data_parallel), options_(options) {
  if (options.period < 1 || options.warmup_steps < 0) {
    throw Error(ErrorKind::invalid_argument, "LocalSgd: period is 1 or more (" + std::to_string(options.period) +
                                                 "), warmup_steps 0 or more (" + std::to_string(options.warmup_steps) +
                                                 ")");
  }
  if (data_parallel.is_sharded()) {
    throw Error(ErrorKind::invalid_argument,
                "LocalSgd: with shard_optimizer no rank can step by itself. Take one of the two.");
  }
  follow();
}

LocalSgd::~LocalSgd() {
  data_parallel_.set_local(false);
}

bool LocalSgd::step(CallSite site) {
  const CalledFrom here(site);
  ++steps_[0];
  follow();
  const std::int64_t local_steps = steps_[0] - options_.warmup_steps;
  if (local_steps <= 0 || local_steps % options_.period != 0) return false;
  average();
  return true;
}

void LocalSgd::average(CallSite site) {
  const CalledFrom here(site);
  data_parallel_.average_parameters();
}

void LocalSgd::follow() {
  data_parallel_.set_local(steps_[0] >= options_.warmup_steps);
}

}  // namespace ddp

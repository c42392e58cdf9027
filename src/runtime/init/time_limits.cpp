#include "runtime/init/time_limits.h"

#include "runtime/limits.h"

namespace ddp::internal {

TimeLimits time_limits(const InitOptions& options, bool is_watched) {
  TimeLimits result;
  result.connecting = options.timeout.value_or(limits::kConnecting);
  result.store = options.store_timeout.value_or(limits::kStoreCall);
  if (!is_watched || options.timeout) return result;
  result.operation = limits::kNoTimeout;
  if (!options.store_timeout) result.coming = limits::kNoTimeout;
  return result;
}

}  // namespace ddp::internal

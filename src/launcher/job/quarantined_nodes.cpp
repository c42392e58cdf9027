#include "launcher/job/quarantined_nodes.h"

#include <algorithm>

#include "launcher/limits.h"

namespace ddp::launcher {

void QuarantinedNodes::was_lost(const std::string& host, TimePoint now) {
  History& history = hosts_[host];
  if (history.losses > 0 && now - history.last > limits::kFlapMemory) history.losses = 0;
  ++history.losses;
  history.last = now;
}

QuarantinedNodes::TimePoint QuarantinedNodes::may_return(const std::string& host) const {
  const auto found = hosts_.find(host);
  if (found == hosts_.end() || found->second.losses < 2) return TimePoint::min();
  std::chrono::milliseconds delay = limits::kFlapDelay;
  for (int i = 2; i < found->second.losses && delay < limits::kLongestFlapDelay; ++i) delay *= 2;
  return found->second.last + std::min<std::chrono::milliseconds>(delay, limits::kLongestFlapDelay);
}

}  // namespace ddp::launcher

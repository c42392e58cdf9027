#include "runtime/backend/nccl/launch_order.h"

#include <map>

#include "runtime/limits.h"

namespace ddp::internal {

std::unique_lock<std::timed_mutex> launch_order(int device) {
  static std::mutex mutex;
  static auto* locks = new std::map<int, std::timed_mutex>;  // threads may be left behind at the end of the process
  std::timed_mutex* lock = nullptr;
  {
    const std::lock_guard guard(mutex);
    lock = &(*locks)[device];
  }
  return std::unique_lock(*lock, limits::kLaunchOrder);
}

}  // namespace ddp::internal

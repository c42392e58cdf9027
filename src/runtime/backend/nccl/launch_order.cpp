#include "runtime/backend/nccl/launch_order.h"

#include <condition_variable>
#include <map>
#include <mutex>

#include "runtime/limits.h"

namespace ddp::internal {

struct LaunchOrder {
  std::mutex mutex;
  std::condition_variable ended;
  bool is_taken = false;
};

namespace {

LaunchOrder& order_of(int device) {
  static std::mutex mutex;
  static auto* orders = new std::map<int, LaunchOrder>;  // threads may be left behind at the end of the process
  const std::lock_guard lock(mutex);
  return (*orders)[device];
}

}  // namespace

LaunchTurn::LaunchTurn(int device) : order_(order_of(device)) {
  std::unique_lock lock(order_.mutex);
  is_own_ = order_.ended.wait_for(lock, limits::kLaunchOrder, [this] { return !order_.is_taken; });
  if (is_own_) order_.is_taken = true;
}

LaunchTurn::~LaunchTurn() {
  if (!is_own_) return;
  {
    const std::lock_guard lock(order_.mutex);
    order_.is_taken = false;
  }
  order_.ended.notify_one();
}

}  // namespace ddp::internal

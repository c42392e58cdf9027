// What Gloo's connections go through: the network interface, and the thread that looks at them.
#pragma once

#include <gloo/transport/device.h>
#include <gloo/transport/tcp/device.h>

#include <memory>
#include <string>

#include "base/unique_fd.h"

namespace ddp::internal {

// Closing one of Gloo's connections waits until its thread has looked once more at what comes in, which, when nothing
// does, happens every 10 ms: n ranks would part in n times that. While a HurriedLoop::Guard is there, the thread looks
// all the time.
class HurriedLoop : public gloo::transport::tcp::Handler {
 public:
  // Must be destroyed after the device.
  explicit HurriedLoop(gloo::transport::Device& device);
  void handleEvents(int events) override;

  class Guard {
   public:
    explicit Guard(HurriedLoop& loop);
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    HurriedLoop& loop_;
  };

 private:
  const base::UniqueFd signal_;
};

// `single_node`: all ranks are on this node. `store_host`: which all ranks reach; empty: unknown. Throws
// what Gloo throws.
std::shared_ptr<gloo::transport::Device> make_gloo_device(bool single_node, const std::string& store_host);

}  // namespace ddp::internal

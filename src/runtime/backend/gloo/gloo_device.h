// Creates the device of Gloo's connections, which has the network interface and the thread that polls the connections.
#pragma once

#include <gloo/transport/device.h>
#include <gloo/transport/tcp/device.h>

#include <memory>
#include <string>

#include "base/unique_fd.h"

namespace ddp::internal {

// Closing one of Gloo's connections waits until Gloo's thread has polled for incoming data once more. If no data
// arrive, the thread polls every 10 ms, so that n ranks need n times as long to disconnect. While a HurriedLoop::Guard
// exists, the thread polls all the time.
class HurriedLoop : public gloo::transport::tcp::Handler {
 public:
  // The loop must be destroyed after the device.
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

// `single_node` is true if all ranks are on this node. `store_host` is an address that all ranks reach, or empty if
// unknown. The function passes Gloo's exceptions on.
std::shared_ptr<gloo::transport::Device> make_gloo_device(bool single_node, const std::string& store_host);

}  // namespace ddp::internal

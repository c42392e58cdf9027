// Signpost listens at the endpoint of a job that another node leads. It sends the launchers that come there to that
// node.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "launcher/start/plan/launch_plan.h"
#include "net/event_loop.h"
#include "store/server/store_server.h"
#include "wire/control_message.h"

namespace ddp::launcher {

// Belongs to the loop's thread.
class Signpost {
 public:
  // Returns null if it cannot listen. Launchers that come later then wait until another one listens there.
  static std::unique_ptr<Signpost> open(net::EventLoop& loop, const LaunchPlan& plan, const std::string& address,
                                        std::uint16_t port, const wire::CoordinatorIsElsewhere& there);

 private:
  explicit Signpost(const wire::CoordinatorIsElsewhere& there) : there_(there) {}
  void hear(store::ConnectionId from, const std::string& bytes);

  wire::CoordinatorIsElsewhere there_;  // the coordinator says again and again where it is
  std::unique_ptr<store::StoreServer> server_;
  std::unique_ptr<net::Watch> watch_;
};

}  // namespace ddp::launcher

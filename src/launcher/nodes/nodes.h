// Nodes: this launcher's part in a job on several nodes: as the hub, which serves the store, or as one that is
// connected to it. docs/decisions/0022-one-port-one-hub-one-fate.md
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "launcher/nodes/node_agent.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/rendezvous/rendezvous.h"
#include "net/event_loop.h"

namespace ddp::launcher {

// Belongs to the loop's thread. Nothing here blocks.
class Nodes {
 public:
  struct Callbacks {
    std::function<void(const NodeAssignment& place)> start;
    std::function<void(const wire::Cause& cause)> end;    // the workers
    std::function<void(const wire::Cause& cause)> leave;  // none runs any more; the last call but for `tell`
    std::function<void(const std::string& line)> tell;
    std::function<void(const std::string& line)> warn;
    std::function<void(const std::string& line)> inform;
    Rendezvous::SocketCallback worker_sockets;
  };

  // The launcher that can listen at the endpoint becomes the hub; another one looks for it, again and again. Failures
  // are of the address and the port.
  static base::Result<std::unique_ptr<Nodes>> open(net::EventLoop& loop, const LaunchPlan& plan, Callbacks callbacks);

  virtual ~Nodes() = default;

  // See NodeAgent.
  virtual void failed(const wire::Cause& cause) = 0;
  virtual void workers_ended() = 0;

  // After `leave`: whether all other nodes have heard of the end. The hub stays for a moment until they have.
  virtual bool is_through() const = 0;

  // What the user ought to know of who can reach the store, if anything.
  virtual std::optional<std::string> warning() const = 0;
};

}  // namespace ddp::launcher

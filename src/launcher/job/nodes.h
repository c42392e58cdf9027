// Nodes: this launcher's part in a job: as the coordinator, which serves the store, or as one that is connected to it.
// A job of one node has a coordinator alone. docs/development/decisions/0022-one-port-one-hub-one-fate.md,
// docs/development/decisions/0029-one-lifecycle.md
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "launcher/log/log_line.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/plan/placement.h"
#include "launcher/watchdog/rank_exchange.h"
#include "net/event_loop.h"
#include "store/server/store_ranks.h"
#include "wire/control_message.h"

namespace ddp::launcher {

// As the coordinator has it; where the store is reached is not known yet.
Placement placement_of(const wire::CoordinatorBegins& begins);

// Belongs to the loop's thread. Nothing here blocks.
class Nodes : public RankChannel {
 public:
  struct Callbacks {
    std::function<void(const Placement& place)> start;
    std::function<void()> is_first;  // the endpoint's name has become known as our own: open() another one instead
    std::function<void(const wire::Cause& cause)> end;    // the workers
    std::function<void(const wire::Cause& cause)> leave;  // none runs any more
    std::function<void()> through;                        // is_through() has become true
    std::function<void(const std::string& line)> again;   // the last attempt is not the end; another one follows
    std::function<void(wire::Subject what)> asked;        // to show it
    std::function<void(const Shown& shown)> shown;        // to the coordinator
    std::function<void()> can_print;                      // again
    LogWriter log;
    std::function<std::vector<store::RankedSocket>()> worker_sockets;  // see store::StoreServerOptions
  };

  // The launcher that can listen at the endpoint becomes the coordinator; another one looks for it, again and again. A
  // job of one node serves the store where LaunchPlan::store says: an address that is a name is looked up, which may
  // take as long as the resolver takes. Failures are of the address and the port, and say what to do.
  static base::Result<std::unique_ptr<Nodes>> open(net::EventLoop& loop, const LaunchPlan& plan, Callbacks callbacks);

  // See NodeAgent.
  virtual void failed(const wire::Cause& cause) = 0;
  virtual void rank_left(int rank) = 0;
  virtual void workers_ended(wire::Progress progress) = 0;
  // The user has stopped this node (Ctrl-Z): see Coordinator.
  virtual void stop_clocks() {}
  virtual void continue_clocks() {}

  // The workers' output, to the coordinator: how much of it was taken, 0 until can_print(); nothing: there is no way to
  // it. `what`: output or errors. The coordinator's own goes its own way.
  virtual std::optional<std::size_t> print(wire::Subject what, std::string_view bytes) = 0;
  // What to wait for, to write, while it takes nothing; -1: nothing.
  virtual int print_descriptor() const = 0;

  // After `leave`: whether all other nodes have heard of the end. The coordinator stays for a moment until they have.
  virtual bool is_through() const = 0;

  // What the user ought to know of who can reach the store, if anything.
  virtual std::optional<std::string> warning() const = 0;
};

}  // namespace ddp::launcher

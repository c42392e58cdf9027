// JobLink is this launcher's link to its job. The launcher either coordinates the job and serves the store, or is
// connected to the coordinator. A job of one node has only a coordinator. See
// docs/development/decisions/0022-one-port-one-hub-one-fate.md and docs/development/decisions/0029-one-lifecycle.md.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "launcher/run/job/agent.h"
#include "launcher/run/ranks/rank_exchange.h"
#include "launcher/start/log/log_line.h"
#include "launcher/start/plan/launch_plan.h"
#include "launcher/start/plan/placement.h"
#include "net/event_loop.h"
#include "store/server/store_ranks.h"
#include "wire/control_message.h"

namespace ddp::launcher {

// Returns the placement as the coordinator sends it. The address of the store is not known yet.
Placement placement_of(const wire::CoordinatorBegins& begins);

struct StartAttempt {
  Placement place;
};
// The name of the endpoint is this node's own. JobLink::open() must be called again.
struct FirstNode {};
// This node becomes the coordinator, or no longer is it. JobLink::changed() must be called.
struct LinkChanges {};
// JobLink::is_through() has become true.
struct OthersKnow {};
// JobLink::print() accepts output again.
struct RoomToPrint {};

// Everything that a job can report to a launcher. A line is to be logged, and a message of another node to be shown.
using LinkEvent = std::variant<StartAttempt, EndWorkers, AttemptFollows, LeaveJob, OthersKnow, FirstNode, LinkChanges,
                               ShowCoordinator, Shown, RoomToPrint, LogLine>;

// Belongs to the loop's thread. No function blocks except open().
class JobLink : public RankChannel {
 public:
  struct Callbacks {
    std::function<void(const LinkEvent& event)> report;
    std::function<std::vector<store::RankedSocket>()> worker_sockets;  // see store::StoreServerOptions
  };

  // The launcher that can listen at the endpoint becomes the coordinator. Every other launcher searches for it
  // repeatedly. A job of one node serves the store where LaunchPlan::store says. If the address is a name, it is
  // resolved, which may take as long as the resolver takes. Failures concern the address and the port, and say what to
  // do.
  static base::Result<std::unique_ptr<JobLink>> open(net::EventLoop& loop, const LaunchPlan& plan, Callbacks callbacks);

  // Returns what replaces this object, or null if nothing does.
  virtual std::unique_ptr<JobLink> changed() { return nullptr; }

  // See Agent.
  virtual void failed(const wire::Cause& cause) = 0;
  virtual void rank_left(int rank) = 0;
  virtual void workers_ended(wire::NodeEnded end) = 0;
  // The user has stopped or continued this node (Ctrl-Z): see Coordinator.
  virtual void set_paused(bool /*is_paused*/) {}

  // Sends the workers' output to the coordinator. Returns how many bytes were accepted; after 0, the caller waits for
  // RoomToPrint. Returns std::nullopt if there is no way to the coordinator. `what` is output or errors. The
  // coordinator's own output does not use this function.
  virtual std::optional<std::size_t> print(wire::Subject /*what*/, std::string_view /*bytes*/) { return std::nullopt; }
  // Returns the descriptor that becomes writable when print() accepts output again, or -1 if there is none.
  virtual int print_descriptor() const { return -1; }

  // At the coordinator, returns the names of the nodes that wait until a place is free.
  virtual std::vector<std::string> spares() const { return {}; }

  // Valid after LeaveJob. Returns whether all other nodes know of the end. The coordinator stays for a moment until
  // they do.
  virtual bool is_through() const { return true; }

  // Returns what the user should know about the processes that can reach the store, or std::nullopt if there is
  // nothing.
  virtual std::optional<std::string> warning() const { return std::nullopt; }
};

}  // namespace ddp::launcher

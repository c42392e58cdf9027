// Rendezvous: where this node's workers stand in the job, and the store in which they meet.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/plan/launch_plan.h"
#include "net/event_loop.h"
#include "store/store_ranks.h"

namespace ddp::launcher {

// What the rendezvous decided for this node. A value.
struct NodeAssignment {
  int node_rank = 0;
  int node_count = 1;
  int first_rank = 0;  // global rank of local rank 0
  int world_size = 1;
  int attempt = 0;  // how often the job has been restarted
  std::string master_addr;
  std::uint16_t master_port = 0;
  std::string node_name;  // in the job, if another node has the same host name; else empty
  std::string interface;  // that leads to the other nodes; empty: there are none, or it is not known
};

// Holds the store and its port for as long as it lives.
class Rendezvous {
 public:
  // Told about a store client that was sent away, or that gave up waiting for a key: a sentence.
  using WarningCallback = std::function<void(const std::string& text)>;

  // The sockets of this node's workers: see store::StoreServerOptions.
  using SocketCallback = std::function<std::vector<store::RankedSocket>()>;

  // One node: the store is served where LaunchPlan::store says. An address that is a name is looked up, which may take
  // as long as the resolver takes; the first of its addresses that belongs to this machine is used.
  static base::Result<std::unique_ptr<Rendezvous>> open(net::EventLoop& loop, const LaunchPlan& plan,
                                                        const WarningCallback& on_warning,
                                                        const SocketCallback& worker_sockets = nullptr);

  virtual ~Rendezvous() = default;

  virtual const NodeAssignment& assignment() const = 0;

  // What the user ought to know of who can reach the store, if anything.
  virtual std::optional<std::string> warning() const = 0;
};

}  // namespace ddp::launcher

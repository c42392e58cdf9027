#include "launcher/run/job/job_link.h"

#include <utility>

#include "base/text.h"
#include "launcher/run/job/coordinator_client.h"
#include "launcher/run/job/coordinator_server.h"
#include "launcher/run/job/store_listener.h"
#include "launcher/run/job/witness_directory.h"
#include "launcher/run/process/image_directory.h"
#include "net/address.h"
#include "store/client/store_visit.h"
#include "wire/image_files.h"

namespace ddp::launcher {

Placement placement_of(const wire::CoordinatorBegins& begins) {
  // Workers read what it names.
  const bool is_readable = begins.restore.image.empty() || wire::image_named(begins.restore.image);
  return {.attempt = begins.attempt,
          .node_rank = begins.node_rank,
          .node_count = begins.node_count,
          .first_rank = begins.first_rank,
          .world_size = begins.world_size,
          .node_name = begins.name,
          .may_restart = begins.may_restart,
          .image_cost = begins.image_cost,
          .restore = is_readable ? begins.restore : wire::RestorePlan(),
          .job_began = begins.standing.history.job_began};
}

Agent new_agent(const LaunchPlan& plan, std::chrono::milliseconds node_timeout) {
  return {net::host_and_port(plan.store.advertised, plan.store.port), node_timeout, std::chrono::steady_clock::now()};
}

void AgentDriver::carry_out(const StartWorkers& action) {
  const wire::CoordinatorBegins& begins = action.place;
  if (plan_.nodes.several()) {
    log(LogLevel::info, base::counted(begins.node_count, "node") + ", " + base::counted(begins.world_size, "worker") +
                            ": " + begins.nodes);
  }
  Placement place = placement_of(begins);
  set_addresses(place);
  callbacks_.report(StartAttempt{place});
}

// The launcher that can listen at the address is the coordinator, because names of hosts are not reliable. Many hosts
// resolve their own name to a loopback address. Such a name is this node's own too, and other nodes reach it at another
// address.
base::Result<std::unique_ptr<JobLink>> JobLink::open(net::EventLoop& loop, const LaunchPlan& plan,
                                                     Callbacks callbacks) {
  if (!plan.image_dir.empty()) {
    if (const auto images = list_images(plan.image_dir); !images) {
      return base::Failure{"--image-dir=" + plan.image_dir + " cannot be read: " + images.error().message +
                           ". Name a directory that all nodes share."};
    }
  }
  if (!plan.nodes.several()) {
    auto coordinator = std::make_unique<CoordinatorServer>(loop, plan, std::move(callbacks));
    const auto why = coordinator->listen(plan.store.bind_address);
    if (!why) return std::unique_ptr<JobLink>(std::move(coordinator));
    return base::Failure{*why + "." + listen_remedy(*why, "--local-addr", "--master-port=")};
  }
  if (!plan.nodes.witness.empty()) {
    if (const auto identity = identify_witness(plan.nodes.witness); !identity) return identity.error();
  }
  const bool may_be_coordinator = plan.nodes.rank.value_or(0) == 0;
  // A name may become known only after the launchers start.
  const bool is_known = !may_be_coordinator || net::is_own_host(plan.store.advertised).has_value();
  if (may_be_coordinator && is_known) {
    auto coordinator = std::make_unique<CoordinatorServer>(loop, plan, callbacks);
    const auto why = coordinator->listen(plan.store.bind_address);
    if (!why) return std::unique_ptr<JobLink>(std::move(coordinator));
    if (plan.nodes.rank)
      return base::Failure{
          *why +
          ". Node 0 listens where the nodes meet, so this must be one of its own addresses. If another node "
          "has this address, give that one --node-rank=0, and this one another number"};
  }
  const wire::CoordinatorIsElsewhere endpoint{"", plan.store.advertised, plan.store.port};
  return std::unique_ptr<JobLink>(
      std::make_unique<CoordinatorClient>(loop, plan, std::move(callbacks), endpoint, !is_known));
}

}  // namespace ddp::launcher

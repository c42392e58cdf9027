#include "launcher/plan/nodes_plan.h"

#include "base/exit_code.h"
#include "base/text.h"
#include "launcher/limits.h"

namespace ddp::launcher {
namespace {

StartFailure mistake(const std::string& text) {
  return {base::kExitUsage, text};
}

// A setting of --rdzv-conf, which has been checked to be a number of seconds.
std::chrono::milliseconds setting(const Options& options, const std::string& name,
                                  std::chrono::milliseconds otherwise) {
  const auto found = options.rdzv_conf.find(name);
  if (found == options.rdzv_conf.end()) return otherwise;
  return std::chrono::seconds(base::parse_integer(found->second, 0, 1 << 30).value_or(0));
}

}  // namespace

base::Result<NodesPlan, StartFailure> plan_nodes(const Options& options, bool is_static) {
  NodesPlan nodes;
  nodes.min = options.min_nodes;
  nodes.max = options.max_nodes;
  nodes.asked =
      nodes.min == nodes.max ? std::to_string(nodes.max) : std::to_string(nodes.min) + ":" + std::to_string(nodes.max);
  const std::string rank = "--node-rank=" + std::to_string(options.node_rank.value_or(0));
  if (!nodes.several()) {
    if (options.node_rank.value_or(0) == 0) return nodes;
    return mistake(rank + ", but the job has one node. Give --nnodes=N, the same on all nodes.");
  }
  const std::string asked = "--nnodes=" + nodes.asked;
  if (options.standalone)
    return mistake(asked + " and --standalone exclude one another: that is one node. Leave one out.");
  const bool has_place = !options.rdzv_endpoint.empty() || !options.master_addr.empty();
  if (!has_place) {
    return mistake(
        asked +
        ": where do the nodes meet? Give --rdzv-endpoint=HOST:PORT, the same on all nodes, where HOST is one of "
        "them; or --master-addr, --master-port and each node's --node-rank.");
  }
  const bool is_numbered = is_static || (options.compatibility_mode == CompatibilityMode::native && options.node_rank);
  if (is_numbered && nodes.min != nodes.max) {
    return mistake(asked + " and " + rank +
                   " exclude one another: a number of nodes that varies needs numbers that are "
                   "given. Leave --node-rank out.");
  }
  if (is_numbered) nodes.rank = options.node_rank.value_or(0);
  if (nodes.rank.value_or(0) >= nodes.max) {
    return mistake(rank + " is none of " + std::to_string(nodes.max) + " nodes, which count from 0 (--nnodes).");
  }
  const auto timeout = setting(options, "timeout", limits::kDefaultJoinTimeout);
  nodes.join_timeout = setting(options, "join_timeout", timeout);
  nodes.last_call = setting(options, "last_call_timeout", limits::kDefaultLastCall);
  nodes.node_timeout = options.node_timeout;
  return nodes;
}

}  // namespace ddp::launcher

#include "launcher/start/plan/rendezvous_plan.h"

#include <algorithm>

#include "base/exit_code.h"
#include "base/text.h"
#include "launcher/limits.h"
#include "launcher/start/cli/values.h"
#include "store/server/admission.h"
#include "wire/worker_env.h"

namespace ddp::launcher {
namespace {

StartFailure mistake(const std::string& text) {
  return {base::kExitUsage, text};
}

// Returns a setting of --rdzv-conf, which was already checked to be a time.
std::chrono::milliseconds setting(const Options& options, const std::string& name,
                                  std::chrono::milliseconds otherwise) {
  const auto found = options.rdzv_conf.find(name);
  if (found == options.rdzv_conf.end()) return otherwise;
  return parse_seconds(found->second).value();
}

// These are torchrun's ports.
constexpr std::uint16_t kStaticPort = 29500;
constexpr std::uint16_t kDynamicPort = 29400;

// Returns whether the store's address is settled beforehand. When invoked as torchrun, that is the default backend.
bool is_static(const Options& options) {
  if (options.rdzv_backend) return options.rdzv_backend == RdzvBackend::static_;
  const bool is_said = !options.rdzv_endpoint.empty() || options.master_port || options.max_nodes > 1;
  return options.compatibility_mode != CompatibilityMode::native && is_said;
}

// Returns the store that the options request, if --standalone is neither given nor implied.
base::Result<StorePlan, StartFailure> plan_store(const Options& options) {
  const bool torch = options.compatibility_mode != CompatibilityMode::native;
  StorePlan store;
  if (!options.rdzv_endpoint.empty()) {
    const auto endpoint = parse_host_and_port(options.rdzv_endpoint);
    // If an IPv6 address has no brackets, its end cannot be distinguished from a port.
    const bool is_clear =
        endpoint && (options.rdzv_endpoint.starts_with('[') || endpoint.value().host.find(':') == std::string::npos);
    if (!is_clear) {
      return StartFailure{base::kExitUsage, "--rdzv-endpoint=" + options.rdzv_endpoint +
                                                " is not an address. Use host:port, or [address]:port for IPv6."};
    }
    if (is_static(options) && !endpoint.value().port) {
      return StartFailure{base::kExitUsage, "--rdzv-endpoint=" + options.rdzv_endpoint +
                                                " has no port. Use --rdzv-endpoint=" + options.rdzv_endpoint + ":" +
                                                std::to_string(kStaticPort) + ", or port 0 for a free one."};
    }
    store.advertised = endpoint.value().host;
    store.port = endpoint.value().port.value_or(kDynamicPort);
    return store;
  }
  if (torch && options.rdzv_backend == RdzvBackend::c10d) store.advertised = "localhost";
  if (!options.master_addr.empty()) store.advertised = options.master_addr;
  const bool is_known = options.max_nodes > 1 || (torch && options.rdzv_backend == RdzvBackend::static_);
  store.port = options.master_port.value_or(is_known ? kStaticPort : 0);
  return store;
}

std::string bind_address(const std::string& advertised) {
  return advertised == "localhost" ? "127.0.0.1" : advertised;
}

// torchrun's store listens on all interfaces, over both versions of IP.
constexpr const char* kAllInterfaces = "::";

// Sets which clients may use the store, and how much.
std::optional<StartFailure> plan_access(const Options& options, const NodeFacts& facts, RendezvousPlan& plan) {
  StorePlan& store = plan.store;
  store.limits = options.store_limits;
  store.open = options.store_open;
  const bool in_variable = find_variable(facts.environment, wire::env::kAuthToken).has_value();
  const std::string option = "--auth-token-file=" + options.auth_token_file;
  if (!facts.auth_token) return StartFailure{base::kExitUsage, facts.auth_token.error().message};
  store.token = facts.auth_token.value();
  if (store.token) store.token_source = in_variable ? wire::env::kAuthToken : option;
  if (store.open) {
    store.bind_address = kAllInterfaces;
    store::AdmissionPolicy policy;
    policy.open = true;
    if (auto warning = store::admission_warning(policy, "the store's port")) plan.notes.push_back(std::move(*warning));
    if (store.token) {
      plan.notes.push_back(store.token_source +
                           (options.max_nodes > 1
                                ? " does not protect the store, because --store-open is given; it only makes the "
                                  "first node refuse launchers that have another token"
                                : " has no effect together with --store-open"));
    }
  } else if (!options.auth_token_file.empty() && options.max_nodes == 1 && is_loopback(store.bind_address)) {
    plan.notes.push_back(option + " has no effect: the store listens on " + store.bind_address +
                         ", which other nodes cannot reach");
  }
  return std::nullopt;
}

std::vector<std::string> without_effect(const Options& options) {
  std::vector<std::string> notes;
  const bool master = !options.master_addr.empty() || options.master_port.has_value();
  if (options.standalone && (master || !options.rdzv_endpoint.empty())) {
    notes.emplace_back("--rdzv-endpoint, --master-addr and --master-port have no effect together with --standalone");
  } else if (master && !options.rdzv_endpoint.empty()) {
    notes.emplace_back("--master-addr and --master-port have no effect together with --rdzv-endpoint");
  }
  if (options.compatibility_mode != CompatibilityMode::native && options.standalone && !options.run_id.empty()) {
    notes.emplace_back("--rdzv-id has no effect together with --standalone; the run id is random, as with torchrun");
  }
  if (!options.local_addr.empty() && options.max_nodes > 1) {
    notes.emplace_back(
        "--local-addr has no effect on several nodes: they meet at the endpoint, which is the store's address");
  } else if (!options.local_addr.empty() && !options.standalone && is_static(options)) {
    notes.emplace_back("--local-addr has no effect with the static backend: use --master-addr or --rdzv-endpoint");
  }
  for (const auto& [key, value] : options.rdzv_conf) {
    if (!is_known_rendezvous_key(key))
      notes.push_back("--rdzv-conf " + key + "=" + value + " has no effect: unknown key");
  }
  if (options.max_nodes > 1) return notes;
  for (const auto& [key, value] : options.rdzv_conf) {
    if (!is_for_several_nodes(key)) continue;
    notes.push_back("--rdzv-conf " + key + "=" + value + " has no effect: there are no other nodes");
  }
  return notes;
}

// Returns whether the job has one node and a store of its own. torchrun with neither backend, endpoint nor port behaves
// as with --standalone.
bool is_standalone(const Options& options) {
  const bool torch = options.compatibility_mode != CompatibilityMode::native;
  const bool is_placed = options.rdzv_backend || !options.rdzv_endpoint.empty() || options.master_port;
  return options.standalone || (torch && options.max_nodes <= 1 && !is_placed);
}

// Returns why --witness has no effect, or an empty string if it has one.
std::string why_no_witness(const Options& options, const NodesPlan& nodes) {
  if (!nodes.several()) return "there are no other nodes";
  if (nodes.rank) return "no other node can lead the job, because the nodes have numbers (--node-rank)";
  if (options.max_restarts == 0)
    return "no other node can lead the job, because it is never restarted (--max-restarts)";
  if (nodes.min > 2)
    return "the job never has fewer than " + std::to_string(nodes.min) + " nodes, and most of them decide";
  return "";
}

void plan_witness(const Options& options, RendezvousPlan& plan) {
  if (options.witness.empty()) return;
  const std::string why = why_no_witness(options, plan.nodes);
  if (why.empty()) {
    plan.nodes.witness = options.witness;
  } else {
    plan.notes.push_back("--witness=" + options.witness + " has no effect: " + why);
  }
}

}  // namespace

Options without_ignored_number(const Options& options) {
  if (!options.node_rank || options.rdzv_backend != RdzvBackend::c10d || options.rdzv_endpoint.empty()) return options;
  Options result = options;
  result.node_rank.reset();
  result.warnings.push_back("--node-rank=" + std::to_string(*options.node_rank) +
                            " has no effect with --rdzv-backend=c10d, which numbers the nodes as they come");
  return result;
}

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
    return mistake(asked + " and --standalone cannot be combined, because --standalone means one node. Leave one out.");
  const bool has_place = !options.rdzv_endpoint.empty() || !options.master_addr.empty();
  if (!has_place) {
    return mistake(asked +
                   " needs an address where the nodes meet. Give --rdzv-endpoint=HOST:PORT, the same on all nodes, "
                   "where HOST is one of "
                   "them; or --master-addr, --master-port and each node's --node-rank.");
  }
  const bool is_numbered = is_static || (options.compatibility_mode == CompatibilityMode::native && options.node_rank);
  if (is_numbered && nodes.min != nodes.max) {
    return mistake(
        asked + " and " + rank +
        " cannot be combined: if the number of nodes varies, the launchers number the nodes. Leave --node-rank out.");
  }
  if (is_numbered) nodes.rank = options.node_rank.value_or(0);
  if (nodes.rank.value_or(0) >= nodes.max) {
    return mistake(rank + " is not below the number of nodes, " + std::to_string(nodes.max) + " (--nnodes).");
  }
  const auto timeout = setting(options, "timeout", limits::kDefaultJoinTimeout);
  nodes.join_timeout = setting(options, "join_timeout", timeout);
  nodes.last_call = setting(options, "last_call_timeout", limits::kDefaultLastCall);
  nodes.node_timeout = options.node_timeout;
  return nodes;
}

bool is_loopback(const std::string& address) {
  return address == "::1" || address.starts_with("127.");
}

base::Result<RendezvousPlan, StartFailure> plan_rendezvous(const Options& options, const NodeFacts& facts) {
  const bool torch = options.compatibility_mode != CompatibilityMode::native;
  auto nodes = plan_nodes(options, torch && is_static(options));
  if (!nodes) return nodes.error();
  RendezvousPlan plan;
  plan.nodes = std::move(nodes).value();
  plan.notes = without_effect(options);
  plan_witness(options, plan);
  if (is_standalone(options)) {
    plan.store.advertised = !options.standalone && !options.master_addr.empty() ? options.master_addr : "localhost";
    const bool named = !options.run_id.empty() && !(torch && options.standalone);
    plan.run_id = named ? options.run_id : facts.random_uuid;
  } else {
    auto store = plan_store(options);
    if (!store) return store.error();
    plan.store = std::move(store).value();
    // Otherwise each of several nodes would have a different random name.
    const bool is_common = torch || plan.nodes.several();
    plan.run_id = !options.run_id.empty() ? options.run_id : is_common ? "none" : facts.random_id;
  }
  if (plan.nodes.several() && plan.store.port == 0) {
    return mistake("--nnodes=" + plan.nodes.asked +
                   ": all nodes must know the port. Give one with --rdzv-endpoint=HOST:PORT or --master-port.");
  }
  const bool settled = !options.standalone && is_static(options);
  if (!options.local_addr.empty() && !settled && !plan.nodes.several()) plan.store.advertised = options.local_addr;
  plan.store.bind_address = bind_address(plan.store.advertised);
  if (auto failure = plan_access(options, facts, plan)) return *failure;
  return plan;
}

}  // namespace ddp::launcher

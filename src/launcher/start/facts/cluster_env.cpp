#include "launcher/start/facts/cluster_env.h"

#include <algorithm>

#include "base/text.h"
#include "launcher/start/facts/host_list.h"
#include "launcher/start/facts/schedulers.h"

namespace ddp::launcher {
namespace {

// Holds what one scheduler reports: a cluster, or the reason why there is none.
struct Reading {
  std::optional<ClusterEnv> cluster;
  std::string declined;
  std::vector<std::string> warnings;
};

base::Failure refusal(const Scheduler& scheduler, const std::string& why) {
  return {std::string(scheduler.title) + ": " + why +
          ". Unset the wrong variable, set --nnodes and --node-rank, or use --scheduler=none."};
}

std::string number_text(const Number& number) {
  return number.source + "=" + std::to_string(number.value);
}

std::string cut(const std::string& text) {
  constexpr std::size_t kMost = 60;
  return text.size() > kMost ? text.substr(0, kMost) + "…" : text;
}

// Returns a text such as "node 1 of 2".
std::string position(const ClusterEnv& cluster) {
  const std::string of = cluster.node_count ? " of " + std::to_string(*cluster.node_count) : "";
  return "node " + std::to_string(cluster.node_rank) + of;
}

// Derives the number of nodes and this node's rank if the scheduler does not report them directly.
std::optional<base::Failure> complete(const Scheduler& scheduler, const std::string& own_name, SchedulerFacts& facts) {
  const HostNames& hosts = facts.hosts;
  if (!facts.node_count && !hosts.names.empty()) facts.node_count = Number{std::ssize(hosts.names), hosts.source};
  if (facts.node_rank) return std::nullopt;
  if (facts.node_count && facts.node_count->value == 1) {
    facts.node_rank = Number{0, facts.node_count->source};
    return std::nullopt;
  }
  const auto place = SchedulerVariables::find_host(hosts, own_name);
  if (place) {
    facts.node_rank = Number{*place, "this host's name"};
    return std::nullopt;
  }
  const std::string among = hosts.names.empty() ? ""
                                                : ": " + shown(own_name) + " is not listed exactly once in " +
                                                      cut(hosts.text) + " (" + hosts.source + ")";
  return refusal(scheduler, "the rank of this node is unknown" + among);
}

// Returns a failure if the facts contradict each other.
std::optional<base::Failure> contradiction(const Scheduler& scheduler, const SchedulerFacts& facts) {
  if (!facts.several_tasks.empty()) {
    return base::Failure{std::string(scheduler.title) + ": " + facts.several_tasks +
                         " shows that a node has several tasks, but ddplaunch starts the workers of a node itself. "
                         "Start one on each node: " +
                         std::string(scheduler.start)};
  }
  const auto& count = facts.node_count;
  if (!count) return std::nullopt;
  const HostNames& hosts = facts.hosts;
  if (!hosts.names.empty() && std::ssize(hosts.names) != count->value) {
    return refusal(scheduler, number_text(*count) + ", but " + hosts.source + "=" + shown(hosts.text) + " has " +
                                  base::counted(std::ssize(hosts.names), "host"));
  }
  if (facts.node_rank->value >= count->value) {
    const bool counted = count->source == hosts.source;
    const std::string limit =
        counted ? "the " + base::counted(count->value, "host") + " of " + hosts.source : number_text(*count);
    return refusal(scheduler, number_text(*facts.node_rank) + " is not below " + limit);
  }
  return std::nullopt;
}

// Returns a text such as "2 nodes, this is 1 (SLURM_NNODES, SLURM_NODEID), hosts node[1,3] (SLURM_JOB_NODELIST), 4
// workers (…)".
std::string describe(const SchedulerFacts& facts) {
  const Number& rank = *facts.node_rank;
  std::string text = "this is node " + std::to_string(rank.value) + " (" + rank.source + ")";
  if (const auto& count = facts.node_count) {
    const std::string sources = count->source == rank.source ? rank.source : count->source + ", " + rank.source;
    text = base::counted(count->value, "node") + ", this is " + std::to_string(rank.value) + " (" + sources + ")";
  }
  if (!facts.hosts.names.empty()) text += ", hosts " + cut(facts.hosts.text) + " (" + facts.hosts.source + ")";
  if (const auto& workers = facts.workers) {
    text += ", " + base::counted(workers->value, "worker") + " (" + workers->source + ")";
  }
  if (facts.master_addr) text += ", master " + *facts.master_addr + " (MASTER_ADDR)";
  return text;
}

std::optional<int> as_int(const std::optional<Number>& number) {
  if (!number) return std::nullopt;
  return static_cast<int>(number->value);
}

base::Result<Reading> read_scheduler(const Scheduler& scheduler, const ClusterRequest& request) {
  SchedulerVariables variables(request);
  SchedulerFacts facts = scheduler.read(variables);
  if (variables.failure()) return refusal(scheduler, *variables.failure());
  if (!facts.declined.empty()) return Reading{std::nullopt, facts.declined, facts.warnings};
  if (auto failure = complete(scheduler, request.host_name, facts)) return *failure;
  if (auto failure = contradiction(scheduler, facts)) return *failure;
  ClusterEnv cluster;
  cluster.scheduler = scheduler.title;
  cluster.node_count = as_int(facts.node_count);
  cluster.node_rank = static_cast<int>(facts.node_rank->value);
  cluster.workers = as_int(facts.workers);
  cluster.job_id = facts.job_id;
  cluster.master_addr = facts.master_addr;
  cluster.master_port = facts.master_port;
  cluster.derived = describe(facts);
  cluster.hosts = std::move(facts.hosts.names);
  return Reading{std::move(cluster), "", facts.warnings};
}

// Returns the scheduler's sign variables that are not set.
std::vector<std::string> missing_signs(const Scheduler& scheduler, const SchedulerVariables& variables) {
  std::vector<std::string> missing;
  std::ranges::copy_if(scheduler.signs, std::back_inserter(missing),
                       [&](const std::string& name) { return !variables.has(name); });
  return missing;
}

bool agree(const ClusterEnv& a, const ClusterEnv& b) {
  return a.node_rank == b.node_rank && (!a.node_count || !b.node_count || *a.node_count == *b.node_count);
}

// Two schedulers started processes and describe this one differently. Returns the one that started this process, or
// null if that cannot be decided. A scheduler with daemons is chosen: its variables were set later than those of the
// scheduler that started the daemons.
const Scheduler* inner(const Scheduler& a, const Scheduler& b) {
  if (a.has_own_daemons == b.has_own_daemons) return nullptr;
  return a.has_own_daemons ? &a : &b;
}

std::string disagreement(const ClusterEnv& a, const ClusterEnv& b) {
  return a.scheduler + " reports that this is " + position(a) + ", but " + b.scheduler + " reports " + position(b);
}

base::Result<ClusterFinding> find_scheduler(const ClusterRequest& request) {
  const SchedulerVariables variables(request);
  ClusterFinding finding;
  const Scheduler* chosen = nullptr;
  for (const Scheduler& scheduler : scheduler_table()) {
    if (scheduler.only_if_asked || !missing_signs(scheduler, variables).empty()) continue;
    // The variables of a whole allocation do not describe the processes that were started within it.
    if (chosen != nullptr && !scheduler.starts_processes) continue;
    auto reading = read_scheduler(scheduler, request);
    if (!reading) return reading.error();
    std::ranges::move(reading.value().warnings, std::back_inserter(finding.warnings));
    auto& cluster = reading.value().cluster;
    if (!cluster || (chosen != nullptr && agree(*finding.cluster, *cluster))) continue;
    if (chosen != nullptr) {
      const std::string both = disagreement(*finding.cluster, *cluster);
      const Scheduler* believed = inner(*chosen, scheduler);
      if (believed == nullptr) {
        return base::Failure{both + ". Select the one that started ddplaunch: --scheduler=" +
                             std::string(chosen->name) + " or --scheduler=" + std::string(scheduler.name) + "."};
      }
      finding.warnings.push_back(both + ". ddplaunch uses " + std::string(believed->title) +
                                 ", because the other may have started its daemons. --scheduler overrides this");
      if (believed == chosen) continue;
    }
    chosen = &scheduler;
    finding.cluster = std::move(cluster);
  }
  if (chosen != nullptr) return finding;
  if (auto warning = warn_of_lone_node(variables)) finding.warnings.push_back(std::move(*warning));
  return finding;
}

// Returns the advice for a scheduler that is requested but did not start this launcher.
std::string remedy(std::string_view start) {
  const std::string first = start.empty() ? "Leave" : "Start it with \"" + std::string(start) + "\", leave";
  return first + " the option out, or use --scheduler=none.";
}

base::Result<ClusterFinding> ask_scheduler(const ClusterRequest& request) {
  const SchedulerVariables variables(request);
  std::vector<std::string> missing;
  std::string_view start;
  for (const Scheduler& scheduler : scheduler_table()) {
    if (scheduler.name != request.scheduler) continue;
    start = scheduler.start;
    missing.push_back(base::join(missing_signs(scheduler, variables), " and "));
    if (!missing.back().empty()) continue;
    auto reading = read_scheduler(scheduler, request);
    if (!reading) return reading.error();
    if (!reading.value().cluster) {
      return base::Failure{"--scheduler=" + request.scheduler + ": " + reading.value().declined + ". " +
                           remedy(scheduler.start)};
    }
    return ClusterFinding{std::move(reading.value().cluster), std::move(reading.value().warnings)};
  }
  return base::Failure{"--scheduler=" + request.scheduler +
                       ": these variables are not set: " + base::join(missing, ", or ") + ". " + remedy(start)};
}

}  // namespace

base::Result<ClusterFinding> read_cluster_env(const ClusterRequest& request) {
  if (request.scheduler == "none") return ClusterFinding{};
  return request.scheduler == "auto" ? find_scheduler(request) : ask_scheduler(request);
}

std::vector<std::string> scheduler_names() {
  std::vector<std::string> names = {"auto", "none"};
  for (const Scheduler& scheduler : scheduler_table()) {
    if (names.back() != scheduler.name) names.emplace_back(scheduler.name);
  }
  return names;
}

}  // namespace ddp::launcher

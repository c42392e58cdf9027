#include "launcher/run/process/preload_spec.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "launcher/run/process/worker_spec.h"
#include "launcher/start/plan/preload_plan.h"
#include "wire/worker_env.h"

namespace ddp::launcher {
namespace {

std::string name_of(const std::string& line) {
  return line.substr(0, line.find('='));
}

// A specification of a worker, none of whose ranks, places and files is that of another one with another `which`.
WorkerSpec example(const LaunchPlan& plan, int which) {
  const std::string text = "example" + std::to_string(which);
  Placement placement;
  placement.attempt = which;
  placement.node_rank = which;
  placement.node_count = which + 1;
  placement.first_rank = which * plan.workers;
  placement.world_size = placement.node_count * plan.workers;
  placement.master_addr = text;
  placement.master_port = static_cast<std::uint16_t>(which);
  placement.interface = text;
  placement.may_restart = which == 1;
  placement.restore.step = which;
  placement.restore.ranks.resize(static_cast<std::size_t>(plan.workers));
  return make_worker_spec(plan, placement, {which == 1 ? 0 : plan.workers - 1, text, text, text});
}

}  // namespace

PreloadSpec make_preload_spec(const LaunchPlan& plan) {
  PreloadSpec result{.refused = plan.preload_refused, .modules = plan.preload};
  if (!result.refused.empty()) return result;
  const WorkerSpec one = example(plan, 1);
  const WorkerSpec other = example(plan, 2);
  const std::set<std::string> others(other.environment.begin(), other.environment.end());
  std::set<std::string> unknown;
  for (const std::string& line : one.environment) {
    const bool is_rank = name_of(line) == wire::env::kLocalRank;
    if (others.contains(line) && !is_rank)
      result.environment.push_back(line);
    else
      unknown.insert(name_of(line));
  }
  for (const std::string& line : other.environment) {
    if (std::ranges::find(one.environment, line) == one.environment.end()) unknown.insert(name_of(line));
  }
  result.probe = python_probe(plan);
  result.command = one.arguments;
  result.command.front() = plan.program;
  result.environment.push_back(wire::env::kPreloadUnknown +
                               ("=" + base::join(std::vector<std::string>(unknown.begin(), unknown.end()), ",")));
  return result;
}

}  // namespace ddp::launcher

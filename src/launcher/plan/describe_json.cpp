// The plan for machines. Field names are stable; docs/reference/environment.md gives the variables' meaning.
#include <nlohmann/json.hpp>

#include "base/signals.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/plan/worker_variables.h"
#include "wire/worker_env.h"

namespace ddp::launcher {
namespace {

using Json = nlohmann::ordered_json;

Json or_null(const std::optional<std::string>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json stream(const StreamPlan& plan) {
  return {{"console", plan.to_console}, {"file", plan.to_file}, {"tagged", plan.tagged}};
}

// What is known only once the job runs is null: the port that the kernel chooses, what follows from it, the error file.
Json environment(const LaunchPlan& plan, int local_rank) {
  WorkerPosition position;
  position.local_rank = local_rank;
  position.world_size = plan.workers;
  position.master_addr = plan.store.advertised;
  position.master_port = plan.store.port;
  Json variables = Json::object();
  for (const auto& [name, value] : worker_variables(plan, position)) variables[name] = value;
  if (plan.store.port == 0) {
    variables[wire::env::kMasterPort] = nullptr;
    if (variables.contains(wire::env::kNcclRasAddress)) variables[wire::env::kNcclRasAddress] = nullptr;
  }
  if (plan.log_dir != "/dev/null") variables[wire::env::kErrorFile] = nullptr;
  return variables;
}

Json worker(const LaunchPlan& plan, int local_rank) {
  const auto i = static_cast<std::size_t>(local_rank);
  Json result = {{"local_rank", local_rank},
                 {"rank", local_rank},
                 {"gpu", or_null(i < plan.devices.size() ? plan.devices[i] : std::nullopt)},
                 {"visible_gpus", or_null(plan.visible_devices[i])}};
  if (i < plan.bindings.size()) {
    result["cpus"] = plan.bindings[i].cpus;
    result["memory_nodes"] = plan.bindings[i].memory_nodes;
  }
  result["stdout"] = stream(plan.output.workers[i].out);
  result["stderr"] = stream(plan.output.workers[i].err);
  result["environment"] = environment(plan, local_rank);
  return result;
}

Json store_place(const StorePlan& plan) {
  Json limits = Json::object();
  for (const store::StoreLimitName& limit : store::store_limit_names()) {
    limits[std::string(limit.name)] = plan.limits.*limit.member;
  }
  return {{"bind_address", plan.bind_address},
          {"port", plan.port},
          {"advertised", plan.advertised},
          {"open", plan.open},
          {"token_from", plan.token ? Json(plan.token_source) : Json(nullptr)},
          {"limits", limits}};
}

Json command(const LaunchPlan& plan) {
  Json result = {{"program", plan.program}, {"arguments", plan.arguments}, {"local_rank_macro", plan.local_rank_macro}};
  result["local_rank_argument_at"] = plan.local_rank_argument ? Json(plan.local_rank_argument_at) : Json(nullptr);
  return result;
}

}  // namespace

std::string describe_json(const LaunchPlan& plan) {
  Json workers = Json::array();
  for (int i = 0; i < plan.workers; ++i) workers.push_back(worker(plan, i));
  Json signals = Json::array();
  for (const int signal : plan.ending_signals) signals.push_back(base::signal_name(signal));
  const Json result = {{"command", command(plan)},
                       {"node", plan.host_name},
                       {"backend", plan.backend},
                       {"store", store_place(plan.store)},
                       {"run_id", plan.run_id},
                       {"role", plan.role},
                       {"supervision",
                        {{"max_restarts", plan.max_restarts},
                         {"grace_ms", plan.grace.count()},
                         {"exit_timeout_ms", plan.exit_timeout.count()},
                         {"hang_timeout_ms", plan.hang.timeout.count()},
                         {"hang_action", name_of(plan.hang.action)},
                         {"ending_signals", signals},
                         {"core", plan.core}}},
                       {"output",
                        {{"tag", plan.output.tag},
                         {"collapse", plan.output.collapse},
                         {"gathered", plan.gather_output},
                         {"lossless", plan.output.lossless},
                         {"color", plan.output.color},
                         {"end_on_closed_console", plan.end_on_closed_console},
                         {"stdout_filters", plan.output.stdout_filters},
                         {"stderr_filters", plan.output.stderr_filters},
                         {"log_dir", or_null(plan.log_dir)}}},
                       {"stdin_local_rank", plan.stdin_local_rank ? Json(*plan.stdin_local_rank) : Json(nullptr)},
                       {"summary_file", plan.summary_file},
                       {"event_log", plan.event_log},
                       {"workers", workers},
                       {"notes", plan.notes}};
  // A name that is no UTF-8 is shown with replacement characters rather than not at all.
  return result.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ddp::launcher

// The plan for machines. Field names are stable; docs/reference/environment.md gives the variables' meaning.
#include <nlohmann/json.hpp>

#include "base/signals.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/plan/worker_variables.h"
#include "wire/worker_env.h"

namespace ddp::launcher {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson or_null(const std::optional<std::string>& value) {
  return value ? OrderedJson(*value) : OrderedJson(nullptr);
}

OrderedJson stream(const StreamPlan& plan) {
  return {{"console", plan.to_console}, {"file", plan.to_file}, {"tagged", plan.tagged}};
}

// What is known only once the job runs is null: the port that the kernel chooses, what follows from it, the error file.
OrderedJson environment(const LaunchPlan& plan, int local_rank) {
  Placement placement;
  placement.world_size = plan.workers;
  placement.master_addr = plan.store.advertised;
  placement.master_port = plan.store.port;
  OrderedJson variables = OrderedJson::object();
  for (const auto& [name, value] : worker_variables(plan, placement, {.local_rank = local_rank}))
    variables[name] = value;
  if (plan.store.port == 0) {
    variables[wire::env::kMasterPort] = nullptr;
    if (variables.contains(wire::env::kNcclRasAddress)) variables[wire::env::kNcclRasAddress] = nullptr;
  }
  if (plan.files.kind != RunFiles::Kind::none) variables[wire::env::kErrorFile] = nullptr;
  return variables;
}

OrderedJson worker(const LaunchPlan& plan, int local_rank) {
  const auto i = static_cast<std::size_t>(local_rank);
  OrderedJson result = {{"local_rank", local_rank},
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

OrderedJson store_json(const StorePlan& plan) {
  OrderedJson limits = OrderedJson::object();
  for (const store::StoreLimitName& limit : store::store_limit_names()) {
    limits[std::string(limit.name)] = plan.limits.*limit.member;
  }
  return {{"bind_address", plan.bind_address},
          {"port", plan.port},
          {"advertised", plan.advertised},
          {"open", plan.open},
          {"token_from", plan.token ? OrderedJson(plan.token_source) : OrderedJson(nullptr)},
          {"limits", limits}};
}

OrderedJson command(const LaunchPlan& plan) {
  OrderedJson result = {
      {"program", plan.program}, {"arguments", plan.arguments}, {"local_rank_macro", plan.local_rank_macro}};
  result["local_rank_argument_at"] =
      plan.local_rank_argument ? OrderedJson(plan.local_rank_argument_at) : OrderedJson(nullptr);
  return result;
}

}  // namespace

std::string describe_json(const LaunchPlan& plan) {
  OrderedJson workers = OrderedJson::array();
  for (int i = 0; i < plan.workers; ++i) workers.push_back(worker(plan, i));
  OrderedJson signals = OrderedJson::array();
  for (const int signal : plan.ending_signals) signals.push_back(base::signal_name(signal));
  const OrderedJson result = {
      {"command", command(plan)},
      {"node", plan.host_name},
      {"backend", plan.backend},
      {"store", store_json(plan.store)},
      {"run_id", plan.run_id},
      {"role", plan.role},
      {"supervision",
       {{"max_restarts", plan.max_restarts},
        {"grace_ms", plan.grace.count()},
        {"exit_timeout_ms", plan.exit_timeout.count()},
        {"hang_timeout_ms", plan.hang.timeout ? OrderedJson(plan.hang.timeout->count()) : OrderedJson(nullptr)},
        {"hang_limit", name_of(plan.hang.limit)},
        {"hang_action", name_of(plan.hang.action)},
        {"ending_signals", signals},
        {"core", name_of(plan.core)}}},
      {"output",
       {{"tag", plan.output.tag},
        {"collapse", plan.output.collapse},
        {"gathered", plan.gather_output},
        {"lossless", plan.output.lossless},
        {"color", plan.output.color},
        {"end_on_closed_console", plan.end_on_closed_console},
        {"stdout_filters", plan.output.stdout_filters},
        {"stderr_filters", plan.output.stderr_filters},
        {"log_dir", or_null(plan.files.shown())}}},
      {"stdin_local_rank", plan.stdin_local_rank ? OrderedJson(*plan.stdin_local_rank) : OrderedJson(nullptr)},
      {"summary_file", plan.summary_file},
      {"event_log", plan.event_log},
      {"workers", workers},
      {"notes", plan.notes}};
  // A name that is no UTF-8 is shown with replacement characters rather than not at all.
  return result.dump(2, ' ', /*ensure_ascii=*/true, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace ddp::launcher

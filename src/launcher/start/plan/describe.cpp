// Describes the plan for people, as a table with one fact per line, and for other programs, as JSON. The field names
// are stable. docs/reference/environment.md explains the variables.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <set>

#include "base/printable.h"
#include "base/secrets.h"
#include "base/signals.h"
#include "base/text.h"
#include "launcher/start/plan/launch_plan.h"
#include "launcher/start/plan/worker_variables.h"
#include "wire/worker_env.h"

namespace ddp::launcher {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t kLabelWidth = 13;

std::string row(const std::string& label, const std::string& value) {
  const std::size_t spaces = label.size() < kLabelWidth ? kLabelWidth - label.size() : 1;
  return label + std::string(spaces, ' ') + base::printable(value) + "\n";
}

std::vector<std::string> notes_of(const LaunchPlan& plan) {
  std::vector<std::string> notes = plan.notes;
  base::append(notes, plan.node_notes);
  return notes;
}

std::string argument_list(const LaunchPlan& plan) {
  std::vector<std::string> words;
  const std::vector<std::string> arguments = base::without_secrets(plan.arguments);
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    if (plan.local_rank_argument && i == plan.local_rank_argument_at) words.emplace_back("--local_rank=N");
    words.push_back(base::shell_quoted(arguments[i]));
  }
  if (plan.local_rank_argument && plan.local_rank_argument_at == plan.arguments.size()) {
    words.emplace_back("--local_rank=N");
  }
  return words.empty() ? "none" : base::join(words, " ");
}

std::string gpu_of(const LaunchPlan& plan, std::size_t i) {
  const auto& visible = plan.visible_devices[i];
  const auto meant = i < plan.devices.size() ? plan.devices[i] : std::nullopt;
  if (!meant) return visible ? "sees GPU " + *visible : "no GPU of its own";
  if (!visible) return "GPU " + *meant + ", sees all";
  return "GPU " + *meant + (visible == meant ? "" : ", sees " + *visible);
}

std::string worker_rows(const LaunchPlan& plan) {
  std::string text;
  for (std::size_t i = 0; i < plan.visible_devices.size(); ++i) {
    std::string value = gpu_of(plan, i);
    if (i < plan.bindings.size()) value += "; " + plan.bindings[i].description;
    if (plan.stdin_local_rank == static_cast<int>(i)) value += "; reads standard input";
    text += row("rank " + std::to_string(i), value);
  }
  return text;
}

std::string store_place(const StorePlan& store) {
  const std::string port = store.port == 0 ? "a free port" : "port " + std::to_string(store.port);
  const std::string bound = store.bind_address == store.advertised ? "" : " (listens on " + store.bind_address + ")";
  return store.advertised + ", " + port + ", served by ddplaunch" + bound +
         (store.open ? ", open to all users and hosts" : "");
}

std::string stream_text(const StreamPlan& stream) {
  if (stream.to_console && stream.to_file) return "console and file";
  if (stream.to_console) return "console";
  return stream.to_file ? "file" : "nowhere";
}

// Returns a row for each destination of output, with its local ranks if there are several destinations.
std::string output_rows(const LaunchPlan& plan) {
  std::map<std::string, std::vector<int>> ranks;
  for (std::size_t i = 0; i < plan.output.workers.size(); ++i) {
    const WorkerOutputPlan& worker = plan.output.workers[i];
    const std::string way = worker.out == worker.err
                                ? stream_text(worker.out)
                                : "stdout to " + stream_text(worker.out) + ", stderr to " + stream_text(worker.err);
    ranks[way].push_back(static_cast<int>(i));
  }
  std::string text;
  for (const auto& [way, list] : ranks) {
    const bool all = list.size() == plan.output.workers.size();
    const std::string whose = base::plural(list.size(), "local rank ", "local ranks ");
    text += row("output", (all ? "" : whose + base::rank_list(list) + ": ") + way);
  }
  const bool tagged = std::ranges::any_of(
      plan.output.workers, [](const WorkerOutputPlan& worker) { return worker.out.tagged || worker.err.tagged; });
  std::vector<std::string> details;
  if (tagged && !plan.output.tag.empty()) details.push_back("tag " + base::shell_quoted(plan.output.tag));
  if (plan.output.collapse) details.emplace_back("identical lines once");
  if (plan.output.color) details.emplace_back("colours");
  if (plan.gather_output) details.emplace_back("shown by the first node");
  if (plan.output.lossless) details.emplace_back("lossless");
  if (plan.end_on_closed_console) details.emplace_back("a closed console terminates the job");
  if (!details.empty()) text += row("lines", base::join(details, ", "));
  if (const auto logs = plan.files.shown()) text += row("logs", *logs);
  return text;
}

std::string supervision(const LaunchPlan& plan) {
  std::vector<std::string> names;
  for (const int signal : plan.ending_signals) names.push_back(base::signal_name(signal));
  std::vector<std::string> parts = {base::counted(plan.max_restarts, "restart"),
                                    "grace " + base::human_duration(plan.grace)};
  if (plan.image_cost > 0 && keeps_states(plan)) {
    const auto tenths = std::lround(1000 * plan.image_cost);
    const std::string percent = std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + "%";
    parts.push_back("images of states of up to " + base::human_bytes(plan.memory_room / 2) + " in " + percent +
                    " of the time");
  }
  if (!plan.image_dir.empty() && keeps_states(plan)) parts.push_back("states in " + plan.image_dir);
  if (plan.save_grace.count() > 0) parts.push_back("save grace " + base::human_duration(plan.save_grace));
  parts.push_back(plan.exit_timeout.count() == 0 ? "no exit timeout"
                                                 : "exit timeout " + base::human_duration(plan.exit_timeout));
  parts.push_back(plan.hang.is_off()  ? "hang detection is off"
                  : plan.hang.timeout ? "hang timeout " + base::human_duration(*plan.hang.timeout) +
                                            (plan.hang.action == HangAction::kill ? "" : " (only reported)")
                                      : "hangs are reported");
  parts.push_back(names.empty() ? "no signal terminates it" : "terminated by " + base::join(names, ", "));
  if (plan.core != CoreDumps::inherit) parts.push_back("core dumps " + std::string(name_of(plan.core)));
  return base::join(parts, ", ");
}

Placement known_placement(const LaunchPlan& plan) {
  return {.world_size = plan.workers,
          .master_addr = plan.store.advertised,
          .master_port = plan.store.port,
          .may_restart = plan.max_restarts > 0,
          .image_cost = plan.max_restarts > 0 || !plan.image_dir.empty() ? plan.image_cost : 0};
}

// Returns the variables whose values are known only when the job runs: the port that the kernel chooses, and on several
// nodes what depends on the order and the size of the other nodes.
std::vector<std::string> variables_of_the_start(const LaunchPlan& plan) {
  std::vector<std::string> names;
  if (plan.store.port == 0) names = {wire::env::kMasterPort, wire::env::kNcclRasAddress};
  if (plan.nodes.several()) {
    for (const char* name : {wire::env::kRank, wire::env::kWorldSize, wire::env::kGroupRank, wire::env::kGroupWorldSize,
                             wire::env::kRoleRank, wire::env::kRoleWorldSize}) {
      names.emplace_back(name);
    }
  }
  return names;
}

// Lists the variables that are the same for all workers, and then the names of those that differ.
std::string environment_rows(const LaunchPlan& plan) {
  const Placement placement = known_placement(plan);
  WorkerContext worker;
  const auto first = worker_variables(plan, placement, worker);
  std::set<std::string> differing = {wire::env::kErrorFile};
  for (const std::string& name : variables_of_the_start(plan)) {
    if (first.contains(name)) differing.insert(name);
  }
  if (first.contains(wire::env::kTorchFile)) differing.insert(wire::env::kTorchFile);
  // These variables belong to a single worker even if there is only one.
  differing.insert({wire::env::kRank, wire::env::kRoleRank});
  for (worker.local_rank = 1; worker.local_rank < plan.workers; ++worker.local_rank) {
    for (const auto& [name, value] : worker_variables(plan, placement, worker)) {
      if (first.at(name) != value) differing.insert(name);
    }
  }
  std::string text;
  for (const auto& [name, value] : first) {
    if (differing.contains(name)) continue;
    text += row(text.empty() ? "environment" : "", name + "=" + base::shell_quoted(base::without_secrets(name, value)));
  }
  const std::vector<std::string> names(differing.begin(), differing.end());
  return text + row("", "set at the start or for each worker: " + base::join(names, ", "));
}

OrderedJson or_null(const std::optional<std::string>& value) {
  return value ? OrderedJson(*value) : OrderedJson(nullptr);
}

OrderedJson stream(const StreamPlan& plan) {
  return {{"console", plan.to_console}, {"file", plan.to_file}, {"tagged", plan.tagged}};
}

// A value is null if it is known only when the job runs.
OrderedJson environment(const LaunchPlan& plan, int local_rank) {
  const Placement placement = known_placement(plan);
  OrderedJson variables = OrderedJson::object();
  for (const auto& [name, value] : worker_variables(plan, placement, {.local_rank = local_rank}))
    variables[name] = base::without_secrets(name, value);
  for (const std::string& name : variables_of_the_start(plan)) {
    if (variables.contains(name)) variables[name] = nullptr;
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
  const OrderedJson at = plan.local_rank_argument ? OrderedJson(plan.local_rank_argument_at) : OrderedJson(nullptr);
  return {{"program", plan.program},
          {"arguments", base::without_secrets(plan.arguments)},
          {"local_rank_macro", plan.local_rank_macro},
          {"local_rank_argument_at", at}};
}

}  // namespace

std::string describe(const LaunchPlan& plan) {
  std::string text = row("program", plan.program);
  text += row("arguments", argument_list(plan));
  if (plan.local_rank_macro) text += row("macros", "$local_rank, ${local_rank} and $$ in arguments");
  text += row("node", plan.host_name);
  if (plan.nodes.several()) {
    text += row("nodes", plan.nodes.asked +
                             (plan.nodes.rank ? ", this is " + std::to_string(*plan.nodes.rank)
                                              : ", which are numbered when they meet") +
                             " (node timeout " + base::human_duration(plan.nodes.node_timeout) + ")");
  }
  if (!plan.nodes.witness.empty()) text += row("witness", plan.nodes.witness);
  text += row("workers", std::to_string(plan.workers));
  text += worker_rows(plan);
  if (!plan.preload.empty()) {
    const std::string& refused = plan.preload_refused;
    text += row("preload", plan.preload + (refused.empty() ? "" : ", but workers are started: " + refused));
  }
  text += row("backend", plan.backend.empty() ? "chosen by the workers" : plan.backend);
  text += row("store", store_place(plan.store));
  if (plan.store.token) text += row("store token", plan.store.token_source);
  if (const std::string limits = store::changed_store_limits(plan.store.limits); !limits.empty()) {
    text += row("store limits", limits);
  }
  text += row("run id", plan.run_id);
  text += row("role", plan.role);
  text += row("supervision", supervision(plan));
  text += output_rows(plan);
  if (!plan.summary_file.empty()) text += row("summary", plan.summary_file);
  if (!plan.event_log.empty()) text += row("event log", plan.event_log);
  if (!plan.report_file.empty()) text += row("report", plan.report_file);
  if (!plan.trace_file.empty()) text += row("trace", plan.trace_file);
  if (plan.recording != Recording::steps) text += row("record", std::string(name_of(plan.recording)));
  text += environment_rows(plan);
  for (const std::string& note : notes_of(plan)) text += row("note", note);
  return text;
}

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
        {"image_cost", plan.image_cost},
        {"image_dir", plan.image_dir.empty() ? OrderedJson(nullptr) : OrderedJson(plan.image_dir)},
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
      {"report_file", plan.report_file},
      {"trace_file", plan.trace_file},
      {"record", name_of(plan.recording)},
      {"preload", {{"modules", plan.preload}, {"refused", plan.preload_refused}}},
      {"workers", workers},
      {"notes", notes_of(plan)}};
  // A name that is not UTF-8 is shown with replacement characters instead of being left out.
  return result.dump(2, ' ', /*ensure_ascii=*/true, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace ddp::launcher

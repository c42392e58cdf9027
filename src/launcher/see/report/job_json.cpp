#include "launcher/see/report/job_json.h"

#include <ddp/version.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <ctime>

#include "base/secrets.h"
#include "base/signals.h"
#include "base/text.h"
#include "launcher/run/job/cause_code.h"
#include "launcher/run/job/restore_plan.h"
#include "wire/error_file.h"

namespace ddp::launcher {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr int kSchema = 1;  // see docs/reference/event-log.md on when it changes

// Workers may print any bytes, but JSON is UTF-8. The text is escaped, so that a terminal does not interpret it.
std::string dump(const OrderedJson& document, int indent = -1) {
  return document.dump(indent, ' ', /*ensure_ascii=*/true, OrderedJson::error_handler_t::replace);
}

constexpr std::array<std::string_view, 13> kSharedPrefixes = {"CUDA_",    "DDP_",   "GLOO_",   "KMP_", "MASTER_",
                                                              "MKL_",     "NCCL_",  "NVIDIA_", "OMP_", "PET_",
                                                              "PYTORCH_", "SLURM_", "TORCH"};

// Returns those "NAME=value" lines that matter for a distributed job, in alphabetical order. A report is passed on to
// other people, so secrets are hidden.
std::vector<std::string> shared_variables(const std::vector<std::string>& environment) {
  std::vector<std::string> shared;
  for (const std::string& line : environment) {
    const auto matters = [&](std::string_view prefix) { return line.starts_with(prefix); };
    if (line.find('=') == std::string::npos || std::ranges::none_of(kSharedPrefixes, matters)) continue;
    shared.push_back(base::without_secrets(line));
  }
  std::ranges::sort(shared);
  return shared;
}

OrderedJson begin(const char* event, const LaunchPlan& plan, const std::string& node, WallTime now) {
  return {{"time", iso_time(now)}, {"event", event}, {"run_id", plan.run_id}, {"node", node}};
}

const std::string& node_at_end(const LaunchPlan& plan, const JobEnd& end) {
  return end.node.empty() ? plan.host_name : end.node;
}

// Returns seconds, to the microsecond.
double seconds_json(std::chrono::nanoseconds duration) {
  return static_cast<double>(std::chrono::duration_cast<std::chrono::microseconds>(duration).count()) / 1e6;
}

OrderedJson describe_call(const CallView& call) {
  return {{"number", call.sequence}, {"call", call.what}, {"name", call.name}, {"place", call.place}};
}

// Returns what is known about one rank.
OrderedJson describe_rank(const RankView& view) {
  OrderedJson json = {{"rank", view.rank}, {"pid", view.pid}, {"ended", view.has_ended}};
  if (!view.node.empty()) json["node"] = view.node;
  if (view.activity) {
    json["cpu_share"] = view.activity->cpu_share;
    json["still_seconds"] = seconds_json(view.activity->still_for);
    json["sign_of_life"] = name_of(view.activity->last_sign);
  }
  if (view.process) json["state"] = std::string(1, view.process->state);
  if (view.process && !view.process->waits_in.empty()) json["waits_in"] = view.process->waits_in;
  if (!view.page.is_written) return json;
  json["phase"] = name_of(view.page.phase);
  if (!view.page.phase_name.empty()) json["phase_name"] = view.page.phase_name;
  if (!view.page.phase_place.empty()) json["phase_place"] = view.page.phase_place;
  json["steps"] = view.page.steps;
  json["groups"] = OrderedJson::array();
  for (std::size_t i = 0; i < view.page.groups.size(); ++i) {
    const GroupView& group = view.page.groups[i];
    OrderedJson calls = OrderedJson::array();
    for (const CallView& call : i < view.calls.size() ? view.calls[i] : std::vector<CallView>()) {
      calls.push_back(describe_call(call));
    }
    json["groups"].push_back({{"name", group.name},
                              {"size", group.size},
                              {"called", group.called},
                              {"started", group.started},
                              {"finished", group.finished},
                              {"calls", calls}});
    for (const TransferView& transfer : group.transfers) {
      if (transfer.is_done) continue;
      json["groups"].back()["transfers"].push_back({{"call", describe(transfer)},
                                                    {"number", transfer.number},
                                                    {"waited_for", transfer.is_waited_for},
                                                    {"place", transfer.place}});
    }
    if (group.gpu_queued == 0 || !group.shows_gpu()) continue;
    json["groups"].back()["gpu"] = {
        {"queued", group.gpu_queued}, {"started", group.gpu_started}, {"finished", group.gpu_finished}};
  }
  return json;
}

OrderedJson describe_stacks(const RankStacks& rank) {
  OrderedJson threads = OrderedJson::array();
  for (const ThreadStack& thread : rank.threads) {
    threads.push_back({{"thread", thread.tid}, {"name", thread.name}, {"frames", thread.frames}});
  }
  return {{"rank", rank.rank}, {"source", rank.source}, {"threads", threads}, {"missing", rank.missing}};
}

OrderedJson verdict_json(const Verdict& verdict) {
  OrderedJson json = {{"code", code_of(verdict.kind)},
                      {"verdict", title_of(verdict.kind)},
                      {"culprits", verdict.culprits},
                      {"waiting", verdict.waiting}};
  if (!verdict.group.empty()) {
    json["group"] = verdict.group;
    json["number"] = verdict.sequence;
    json["call"] = verdict.call;
    if (verdict.is_transfer) json["transfer"] = true;
  }
  if (!verdict.sides.empty()) json["sides"] = OrderedJson::array();
  for (const RankCall& side : verdict.sides) {
    OrderedJson call = {{"rank", side.rank}};
    call.update(describe_call(side.call));
    json["sides"].push_back(call);
  }
  return json;
}

OrderedJson stragglers_json(const StragglerReport& report) {
  OrderedJson json = {
      {"collectives", report.collectives}, {"seconds", seconds_json(report.time)}, {"ranks", OrderedJson::array()}};
  for (const Straggler& rank : report.ranks) {
    json["ranks"].push_back(OrderedJson{{"rank", rank.rank},
                                        {"waited_for_seconds", seconds_json(rank.waited_for)},
                                        {"longest_wait_seconds", seconds_json(rank.longest_wait)},
                                        {"last", rank.last},
                                        {"late_seconds", seconds_json(rank.late)}});
  }
  return json;
}

OrderedJson stall_json(const HangNews& news) {
  OrderedJson json = verdict_json(news.verdict);
  json["age_seconds"] = seconds_json(news.age);
  json["class"] = name_of(news.judgement.hang_class);
  json["limit_seconds"] = seconds_json(news.judgement.limit);
  json["why_limit"] = news.judgement.why;
  if (news.judgement.ends_in)
    json["ends_in_seconds"] = seconds_json(std::max(*news.judgement.ends_in, std::chrono::nanoseconds(0)));
  json["ends_job"] = news.ends_job;
  json["ranks"] = OrderedJson::array();
  for (const RankView& rank : news.ranks) json["ranks"].push_back(describe_rank(rank));
  if (!news.evidence.stacks.empty()) json["stacks"] = OrderedJson::array();
  for (const RankStacks& rank : news.evidence.stacks) json["stacks"].push_back(describe_stacks(rank));
  if (!news.evidence.sources.empty()) json["sources"] = OrderedJson::array();
  for (const EvidenceSource& source : news.evidence.sources) {
    json["sources"].push_back({{"name", source.name}, {"text", source.text}, {"missing", source.missing}});
  }
  if (news.kind == HangNews::Kind::asked) json["stragglers"] = stragglers_json(news.stragglers);
  return json;
}

void add_status(OrderedJson& json, const base::ExitStatus& status) {
  if (!status.was_killed()) {
    json["exit_code"] = status.shell_code();
    return;
  }
  json["signal"] = base::signal_name(status.signal());
  json["core_dumped"] = status.dumped_core();
}

// Unknown values are left out.
OrderedJson gpu_memory_json(const GpuMemoryError& error) {
  constexpr std::array kSources = {"pytorch", "runtime", "cuda", "nccl", "cublas"};
  OrderedJson json = {{"source", kSources.at(static_cast<std::size_t>(error.source))}};
  const auto add = [&](const char* name, std::optional<std::uint64_t> bytes) {
    if (bytes) json[name] = *bytes;
  };
  add("asked_bytes", error.asked_bytes);
  add("free_bytes", error.free_bytes);
  add("total_bytes", error.total_bytes);
  add("own_bytes", error.own_bytes);
  add("unused_bytes", error.unused_bytes);
  return json;
}

OrderedJson gpu_memory_json(const GpuMemoryFailure& failure) {
  OrderedJson json = gpu_memory_json(failure.error);
  if (failure.gpu) json["gpu"] = *failure.gpu;
  json["others"] = OrderedJson::array();
  for (const GpuNeighbour& neighbour : failure.neighbours) {
    OrderedJson other = {{"pid", neighbour.process.pid}};
    if (neighbour.process.bytes) other["bytes"] = *neighbour.process.bytes;
    if (neighbour.rank) other["rank"] = *neighbour.rank;
    if (!neighbour.process.name.empty()) other["name"] = neighbour.process.name;
    json["others"].push_back(std::move(other));
  }
  return json;
}

void add_evidence(OrderedJson& json, const std::optional<ErrorRecord>& error, std::uint64_t peak_rss_bytes,
                  const std::optional<OomKill>& oom) {
  json["peak_rss_bytes"] = peak_rss_bytes;
  if (error) {
    json["error"] = error->message;
    json["secondary"] = error->is_secondary;
    if (const auto memory = find_gpu_memory_error(error->message)) json["gpu_memory"] = gpu_memory_json(*memory);
  }
  if (oom) json["oom"] = {{"cgroup", oom->where}, {"limit_bytes", oom->limit_bytes}, {"peak_bytes", oom->peak_bytes}};
}

OrderedJson describe_end(const WorkerEnd& end) {
  OrderedJson json = {{"rank", end.rank}, {"local_rank", end.local_rank}, {"pid", end.pid}};
  add_status(json, end.status);
  json["ended_by_launcher"] = end.after_signal;
  add_evidence(json, end.error, end.peak_rss_bytes, end.oom);
  if (!end.gpu_uuid.empty()) json["gpu_uuid"] = end.gpu_uuid;
  return json;
}

struct CauseToJson {
  const JobOutcome& outcome;

  OrderedJson operator()(std::monostate) const { return nullptr; }
  OrderedJson operator()(const WorkerFailed& failed) const {
    OrderedJson cause = {{"kind", "worker_failed"}};
    cause.update(describe_end(failed.end));
    if (failed.verdict) cause["verdict"] = verdict_json(*failed.verdict);
    return cause;
  }
  OrderedJson operator()(const SpawnFailed& failed) const {
    return {{"kind", "cannot_start"}, {"local_rank", failed.local_rank}, {"message", failed.failure.message}};
  }
  OrderedJson operator()(const SignalArrived& request) const {
    return {{"kind", "signal"}, {"signal", base::signal_name(request.signal)}};
  }
  OrderedJson operator()(const GuardianLost&) const { return {{"kind", "launcher_killed"}}; }
  OrderedJson operator()(const ExitTimedOut&) const {
    return {{"kind", "exit_timeout"}, {"ended", outcome.left_early}, {"waited_for", outcome.ended_ranks}};
  }
  OrderedJson operator()(const HangNews& hang) const { return {{"kind", "hang"}, {"stall", stall_json(hang)}}; }
  OrderedJson operator()(const EndedElsewhere& elsewhere) const {
    const wire::Cause& there = elsewhere.cause;
    return {{"kind", "elsewhere"}, {"node", there.node}, {"message", full_text(there)}, {"exit_code", there.exit_code}};
  }
};

OrderedJson describe_cause(const JobOutcome& outcome) {
  return std::visit(CauseToJson{outcome}, outcome.cause);
}

void add_code(OrderedJson& json, wire::CauseCode code) {
  json["cause_code"] = wire::name_of(code);
  json["repeat"] = repeat_after(code);
}

struct EventToJson {
  const LaunchPlan& plan;
  const Placement& placement;
  WallTime now;
  const std::vector<std::string>& text;

  OrderedJson of_node(const char* event) const { return begin(event, plan, node_name(plan.host_name, placement), now); }
  OrderedJson of_worker(const char* event, int local_rank) const {
    OrderedJson json = of_node(event);
    json["attempt"] = placement.attempt;
    json["rank"] = placement.first_rank + local_rank;
    json["local_rank"] = local_rank;
    return json;
  }

  OrderedJson operator()(const WorkerStarted& event) const {
    OrderedJson json = of_worker("worker_started", event.local_rank);
    json["pid"] = event.pid;
    const auto index = static_cast<std::size_t>(event.local_rank);
    if (index < plan.devices.size() && plan.devices[index]) json["gpu"] = *plan.devices[index];
    return json;
  }
  OrderedJson operator()(const SpawnFailed& event) const {
    OrderedJson json = of_worker("worker_not_started", event.local_rank);
    json["exit_code"] = event.failure.exit_code;
    json["message"] = event.failure.message;
    return json;
  }
  OrderedJson operator()(const WorkerEnd& event) const {
    OrderedJson json = of_worker("worker_ended", event.local_rank);
    add_status(json, event.status);
    add_evidence(json, event.error, event.peak_rss_bytes, event.oom);
    if (!event.gpu_uuid.empty()) json["gpu_uuid"] = event.gpu_uuid;
    return json;
  }
  OrderedJson operator()(const EndedElsewhere& event) const {
    OrderedJson json = of_node("ended_elsewhere");
    json["attempt"] = placement.attempt;
    json["other_node"] = event.cause.node;
    json["message"] = event.cause.text;
    json["exit_code"] = event.cause.exit_code;
    return json;
  }
  OrderedJson operator()(const SignalArrived& event) const {
    OrderedJson json = of_node("signal");
    json["signal"] = base::signal_name(event.signal);
    return json;
  }
  OrderedJson operator()(const GuardianLost&) const { return of_node("launcher_killed"); }
  OrderedJson operator()(const ConsoleClosed&) const { return of_node("console_closed"); }
  OrderedJson operator()(const HangNews& event) const {
    OrderedJson json = of_node("hang");
    json["attempt"] = placement.attempt;
    json["state"] = name_of(event.kind);
    json["text"] = text;
    json["stall"] = stall_json(event);
    return json;
  }
  OrderedJson operator()(const StatesKept& event) const {
    if (event.whole.empty()) return nullptr;
    OrderedJson json = of_node("states_kept");
    json["attempt"] = placement.attempt;
    json["states"] = OrderedJson::array();
    for (const wire::KeptState& state : event.whole) {
      json["states"].push_back({{"step", state.step}, {"rank", state.rank}, {"bytes", state.bytes}});
    }
    return json;
  }
  // The line about the attempt's end covers the other events, and an alarm is none.
  template <typename Other>
  OrderedJson operator()(const Other&) const {
    return nullptr;
  }
};

}  // namespace

std::string iso_time(WallTime time) {
  const std::time_t whole = std::chrono::system_clock::to_time_t(time);
  const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
  std::tm parts{};
  ::gmtime_r(&whole, &parts);
  std::array<char, 32> text{};
  const std::size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text.data() + size, text.size() - size, ".%03dZ", static_cast<int>(since % 1000));
  return text.data();
}

std::string job_started_line(const LaunchPlan& plan, const StartPlace& place, WallTime now) {
  OrderedJson json = begin("job_started", plan, plan.host_name, now);
  json["schema"] = kSchema;
  json["version"] = DDP_VERSION_STRING;
  json["program"] = plan.program;
  json["arguments"] = base::without_secrets(plan.arguments);
  json["workers"] = plan.workers;
  json["max_restarts"] = plan.max_restarts;
  json["command_line"] = base::without_secrets(plan.command_line);
  json["variables"] = shared_variables(plan.inherited_environment);
  json["nodes"] = plan.nodes.asked;
  json["recording"] = name_of(plan.recording);
  if (plan.earlier.count > 0) json["attempts_before"] = plan.earlier.count;
  if (!place.directory.empty()) json["directory"] = place.directory;
  if (!place.system.empty()) json["system"] = place.system;
  if (!place.log_directory.empty()) json["log_directory"] = place.log_directory;
  return dump(json);
}

std::string attempt_started_line(const LaunchPlan& plan, const Placement& placement, WallTime now,
                                 std::optional<std::chrono::nanoseconds> since_failure) {
  OrderedJson json = begin("attempt_started", plan, node_name(plan.host_name, placement), now);
  json["attempt"] = placement.attempt;
  json["world_size"] = placement.world_size;
  json["first_rank"] = placement.first_rank;
  json["workers"] = plan.workers;
  json["master_addr"] = placement.master_addr;
  json["master_port"] = placement.master_port;
  if (const wire::RestorePlan& restore = placement.restore; !restore.ranks.empty()) {
    json["restored"] = {{"step", restore.step},
                        {"lost_steps", restore.lost_steps},
                        {"source", restore.image.empty() ? "memory" : "disk"},
                        {"text", describe(restore)}};
  }
  if (since_failure) json["since_failure_seconds"] = seconds_json(*since_failure);
  return dump(json);
}

std::string event_line(const LaunchPlan& plan, const Placement& placement, const Event& event, WallTime now,
                       const std::vector<std::string>& text) {
  const OrderedJson json = std::visit(EventToJson{plan, placement, now, text}, event);
  return json.is_null() ? "" : dump(json);
}

std::string message_line(const LaunchPlan& plan, const std::string& node, const LogLine& line, WallTime now) {
  OrderedJson json = begin("message", plan, node, now);
  json["level"] = base::split(kLogLevelNames, ' ').at(static_cast<std::size_t>(line.level));
  json["source"] = kLogSourceNames[static_cast<std::size_t>(line.source)];
  json["text"] = line.text;
  return dump(json);
}

std::string dump_document(const LaunchPlan& plan, const Placement& placement, const HangNews& news, WallTime now) {
  return dump(EventToJson{plan, placement, now, {}}(news), 2) + "\n";
}

std::string attempt_ended_line(const LaunchPlan& plan, const Placement& placement, const AttemptEnd& end,
                               WallTime now) {
  const JobOutcome& outcome = end.outcome;
  OrderedJson json = begin("attempt_ended", plan, node_name(plan.host_name, placement), now);
  json["attempt"] = placement.attempt;
  json["exit_code"] = outcome.status.shell_code();
  json["cause"] = describe_cause(outcome);
  add_code(json, code_of(outcome));
  json["ended_ranks"] = outcome.ended_ranks;
  json["run_seconds"] = seconds_json(outcome.run_time);
  json["ending_seconds"] = seconds_json(outcome.ending_time);
  if (!end.next.empty()) json["next"] = end.next;
  json["text"] = end.text;
  json["last_lines"] = end.evidence.last_lines;
  if (!end.evidence.core.empty()) json["core"] = end.evidence.core;
  if (!end.evidence.log_file.empty()) json["log_file"] = end.evidence.log_file;
  if (end.evidence.gpu_memory) json["gpu_memory"] = gpu_memory_json(*end.evidence.gpu_memory);
  json["stragglers"] = stragglers_json(outcome.stragglers);
  return dump(json);
}

std::string job_ended_line(const LaunchPlan& plan, const JobEnd& end, WallTime now) {
  OrderedJson json = begin("job_ended", plan, node_at_end(plan, end), now);
  json["exit_code"] = end.exit_code;
  json["attempts"] = end.attempts;
  json["run_seconds"] = seconds_json(end.run_time);
  if (!end.launcher_failure.empty()) json["message"] = end.launcher_failure;
  json["text"] = end.text;
  return dump(json);
}

std::string summary_document(const LaunchPlan& plan, const JobOutcome& outcome, const JobEnd& end,
                             const FailureEvidence& evidence, const std::string& log_directory) {
  const bool own_fault = !end.launcher_failure.empty();
  OrderedJson json = {{"schema", kSchema},       {"version", DDP_VERSION_STRING},
                      {"run_id", plan.run_id},   {"node", node_at_end(plan, end)},
                      {"program", plan.program}, {"arguments", base::without_secrets(plan.arguments)},
                      {"workers", plan.workers}, {"exit_code", end.exit_code},
                      {"attempts", end.attempts}};
  json["cause"] =
      own_fault ? OrderedJson{{"kind", "launcher_failed"}, {"message", end.launcher_failure}} : describe_cause(outcome);
  add_code(json, own_fault ? wire::CauseCode::launcher : code_of(outcome));
  json["run_seconds"] = seconds_json(end.run_time);
  json["last_attempt_seconds"] = seconds_json(outcome.run_time);
  json["ending_seconds"] = seconds_json(outcome.ending_time);
  if (!evidence.core.empty()) json["core"] = evidence.core;
  if (!log_directory.empty()) json["log_directory"] = log_directory;
  if (evidence.gpu_memory) json["gpu_memory"] = gpu_memory_json(*evidence.gpu_memory);
  json["last_lines"] = evidence.last_lines;
  json["ended_ranks"] = outcome.ended_ranks;
  json["left_early"] = outcome.left_early;
  json["not_started"] = outcome.not_started;
  json["needed_kill"] = outcome.needed_kill;
  json["unkillable"] = OrderedJson::array();
  for (const RankAndPid& worker : outcome.unkillable) {
    json["unkillable"].push_back(OrderedJson{{"rank", worker.rank}, {"pid", worker.pid}});
  }
  json["leftovers"] = outcome.leftovers;
  json["stragglers"] = stragglers_json(outcome.stragglers);
  json["workers_ended"] = OrderedJson::array();
  for (const WorkerEnd& worker : outcome.ends) json["workers_ended"].push_back(describe_end(worker));
  json["text"] = end.text;
  return dump(json, 2) + "\n";
}

std::string error_record_document(const std::string& message, const std::vector<std::string>& last_lines, int exit_code,
                                  WallTime now) {
  const auto since = std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
  const OrderedJson json = {
      {"message",
       {{"message", message},
        {"errorCode", exit_code},
        {"extraInfo", {{"py_callstack", base::join(last_lines, "\n")}, {"timestamp", std::to_string(since)}}}}}};
  return dump(json) + "\n";
}

std::string with_cause_code(const std::string& error_record, wire::CauseCode code) {
  OrderedJson json = OrderedJson::parse(error_record, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return error_record;
  json[wire::kErrorCause] = wire::name_of(code);
  json[wire::kErrorRepeat] = repeat_after(code);
  return dump(json) + "\n";
}

}  // namespace ddp::launcher

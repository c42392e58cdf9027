#include "launcher/see/top/running_jobs.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <utility>

#include "base/exit_code.h"
#include "base/text.h"
#include "launcher/limits.h"
#include "launcher/see/top/view_client.h"
#include "launcher/see/top/view_socket.h"
#include "launcher/see/view/json_fields.h"
#include "launcher/see/view/short_figures.h"
#include "launcher/see/view/styled_line.h"
#include "launcher/start/facts/node_facts.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kListedJobs = 20;  // in a message
constexpr int kTextColumns = 60;         // of a run id, a state or a program

using Cells = std::vector<std::string>;

Cells cells_of(const RunningJob& job) {
  const std::string pid = std::to_string(job.pid);
  if (!job.has_answered) return {pid, "-", "-", "-", "-", cut_to(why_unknown(job), kTextColumns), "-"};
  return {pid,
          cut_to(clean_text(job.run_id), kTextColumns),
          std::to_string(job.ranks),
          std::to_string(job.nodes),
          short_duration(job.uptime),
          std::string(state_of(job)),
          cut_to(clean_text(job.program), kTextColumns)};
}

std::string list_of(const std::vector<RunningJob>& jobs) {
  std::string text;
  for (const std::string& line : job_table(std::span(jobs).first(std::min(jobs.size(), kListedJobs)))) {
    text += "\n  " + line;
  }
  if (jobs.size() > kListedJobs) text += "\n  ... and " + std::to_string(jobs.size() - kListedJobs) + " more";
  return text;
}

void take_snapshot(const JobSnapshot& snapshot, RunningJob& job) {
  job.has_answered = true;
  job.launcher_pid = snapshot.launcher_pid;
  job.run_id = snapshot.run_id;
  job.program = snapshot.program;
  job.ranks = snapshot.world_size;
  job.nodes =
      static_cast<int>(std::ranges::count_if(snapshot.nodes, [](const NodeRow& node) { return node.workers > 0; }));
  job.uptime = snapshot.uptime;
  job.is_stalled = !snapshot.stall.empty();
}

constexpr int kListSchema = 1;
constexpr int kTimeDigits = 3;

template <typename Value>
std::optional<Value> if_known(const RunningJob& job, const Value& value) {
  return job.has_answered ? std::optional(value) : std::nullopt;
}

void list_job(FieldWriter& fields, const RunningJob& job) {
  fields.add("pid", static_cast<int>(job.pid));
  fields.add("state", state_of(job));
  fields.add("reason", why_unknown(job));
  fields.add("run_id", if_known(job, job.run_id));
  fields.add("program", if_known(job, job.program));
  fields.add("world_size", if_known(job, job.ranks));
  fields.add("node_count", if_known(job, job.nodes));
  fields.add("uptime_seconds", if_known(job, job.uptime), kTimeDigits);
}

}  // namespace

base::Result<std::vector<RunningJob>> find_jobs(std::span<const std::string> environment) {
  const std::string chosen = find_variable(environment, "DDP_SOCKET_DIR").value_or("");
  const auto wrong = chosen.empty() ? std::nullopt : check_socket_folder(chosen);
  if (wrong) return base::Failure{"DDP_SOCKET_DIR: " + wrong->message};
  std::vector<RunningJob> jobs;
  for (const FoundSocket& socket : find_sockets(socket_folders(environment))) {
    auto fd = connect_to(socket.path);
    if (!fd && fd.error().is_stale) {
      remove_stale(socket);
      continue;
    }
    RunningJob& job = jobs.emplace_back();
    job.path = socket.path;
    job.pid = socket.pid;
    if (!fd) continue;  // a stopped launcher accepts no connection
    const auto deadline = std::chrono::steady_clock::now() + limits::kViewConnectTime;
    const auto answer = ask_launcher(fd.value().get(), {ViewWish::snapshot, 0}, deadline);
    if (answer && answer.value().kind == ViewAnswer::Kind::error) job.refusal = answer.value().lines.front();
    if (!answer || answer.value().kind != ViewAnswer::Kind::snapshot) continue;
    take_snapshot(answer.value().snapshot, job);
    job.connection = std::make_shared<base::UniqueFd>(std::move(fd).value());
  }
  return jobs;
}

std::string_view state_of(const RunningJob& job) {
  if (!job.has_answered) return "unknown";
  if (job.ranks == 0 || job.nodes == 0) return "starting";
  return job.is_stalled ? "stalled" : "running";
}

std::string why_unknown(const RunningJob& job) {
  if (job.has_answered) return "";
  return job.refusal.empty() ? "does not answer" : clean_text(job.refusal);
}

std::vector<std::string> job_table(std::span<const RunningJob> jobs) {
  std::vector<Cells> rows = {{"PID", "RUN ID", "RANKS", "NODES", "AGE", "STATE", "PROGRAM"}};
  for (const RunningJob& job : jobs) rows.push_back(cells_of(job));
  return aligned_rows(rows);
}

base::Result<RunningJob> choose_job(const std::vector<RunningJob>& jobs, const std::string& wanted) {
  if (jobs.empty()) {
    return base::Failure{
        "no job of this user is running on this node. ddplaunch top shows jobs on the node where they run."};
  }
  if (wanted.empty()) {
    if (jobs.size() == 1) return jobs.front();
    return base::Failure{"several jobs are running. Name one of them: ddplaunch top PID" + list_of(jobs)};
  }
  const auto pid = base::parse_integer(wanted, 1, std::numeric_limits<pid_t>::max());
  std::vector<RunningJob> matching;
  for (const RunningJob& job : jobs) {
    if ((pid && (job.pid == *pid || job.launcher_pid == *pid)) || (job.has_answered && job.run_id == wanted)) {
      matching.push_back(job);
    }
  }
  if (matching.size() == 1) return matching.front();
  if (matching.empty())
    return base::Failure{"no running job is named '" + wanted + "'. These are running:" + list_of(jobs)};
  return base::Failure{"several jobs are named '" + wanted + "'. Name one of them by its PID:" + list_of(matching)};
}

std::string list_text(std::span<const RunningJob> jobs) {
  if (jobs.empty()) return "No job of this user is running on this node.\n";
  std::string text;
  for (const std::string& line : job_table(jobs)) text += line + "\n";
  return text;
}

std::string list_json(std::span<const RunningJob> jobs) {
  std::string text = "{\"schema\":" + std::to_string(kListSchema) + ",\"jobs\":[";
  for (const RunningJob& job : jobs) {
    if (&job != &jobs.front()) text += ',';
    FieldWriter::object(text, job, list_job);
  }
  return text + "]}\n";
}

int run_ls_command(const LsOptions& options, const std::vector<std::string>& environment, Log& log,
                   int (*print)(const std::string& text)) {
  const auto jobs = find_jobs(environment);
  if (jobs) return print(options.json ? list_json(jobs.value()) : list_text(jobs.value()));
  log.write({LogLevel::error, LogSource::launcher, jobs.error().message});
  return base::kExitOwnFault;
}

}  // namespace ddp::launcher

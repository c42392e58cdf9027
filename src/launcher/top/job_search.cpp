#include "launcher/top/job_search.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "base/text.h"
#include "launcher/limits.h"
#include "launcher/top/view_client.h"
#include "launcher/top/view_socket.h"
#include "launcher/view/short_figures.h"
#include "launcher/view/text_columns.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kListedJobs = 20;
constexpr int kListedProgram = 60;  // columns

std::string list_of(const std::vector<RunningJob>& jobs) {
  std::string text;
  for (std::size_t i = 0; i < std::min(jobs.size(), kListedJobs); ++i) {
    const RunningJob& job = jobs[i];
    text += "\n  " + std::to_string(job.pid) + "  ";
    if (!job.has_answered) {
      text += job.refusal.empty() ? "(does not answer)" : "(" + clean_text(job.refusal) + ")";
      continue;
    }
    text += clean_text(job.run_id) + "  " + base::counted(job.ranks, "rank") + ", up " + short_duration(job.uptime) +
            "  " + cut_to(clean_text(job.program), kListedProgram);
  }
  if (jobs.size() > kListedJobs) text += "\n  ... and " + std::to_string(jobs.size() - kListedJobs) + " more";
  return text;
}

}  // namespace

std::vector<RunningJob> find_jobs(const std::vector<std::string>& folders) {
  std::vector<RunningJob> jobs;
  for (const FoundSocket& socket : find_sockets(folders)) {
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
    const JobSnapshot& snapshot = answer.value().snapshot;
    job.has_answered = true;
    job.launcher_pid = snapshot.launcher_pid;
    job.run_id = snapshot.run_id;
    job.program = snapshot.program;
    job.ranks = snapshot.world_size;
    job.uptime = snapshot.uptime;
    job.connection = std::make_shared<base::UniqueFd>(std::move(fd).value());
  }
  return jobs;
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

}  // namespace ddp::launcher

#include "launcher/see/top/ls_command.h"

#include "base/exit_code.h"
#include "launcher/see/view/json_fields.h"

namespace ddp::launcher {
namespace {

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

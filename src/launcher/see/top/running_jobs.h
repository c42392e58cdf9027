// Finds the running jobs of this user on this node, for `ddplaunch top` and `ddplaunch ls`.
#pragma once

#include <sys/types.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "launcher/start/cli/subcommand_options.h"
#include "launcher/start/log/log.h"

namespace ddp::launcher {

// Represents a job of this user on this node.
struct RunningJob {
  std::string path;  // of the launcher's socket
  pid_t pid = 0;     // as the socket's name says
  bool has_answered = false;
  // If it has answered:
  int launcher_pid = 0;
  std::string run_id;
  std::string program;
  int ranks = 0;
  int nodes = 0;      // without spares
  double uptime = 0;  // seconds
  bool is_stalled = false;
  // A view keeps this connection. A launcher that has place for one more view may refuse a second connection.
  std::shared_ptr<base::UniqueFd> connection;
  // If it refuses another view:
  std::string refusal;  // as the launcher says it
};

// Asks each launcher with a socket of this user, by pid. A launcher that does not answer takes
// limits::kViewConnectTime. Sockets of launchers that have ended are removed. `environment` has lines "NAME=value". The
// failure says that DDP_SOCKET_DIR cannot be used.
base::Result<std::vector<RunningJob>> find_jobs(std::span<const std::string> environment);

// Returns "starting" before the first attempt, "running", "stalled" or "unknown". It is pure.
std::string_view state_of(const RunningJob& job);

// Returns why the state of the job is unknown. Returns an empty text if it is known. It is pure.
std::string why_unknown(const RunningJob& job);

// Returns a line with the names of the columns, and a line for each job. It is pure.
std::vector<std::string> job_table(std::span<const RunningJob> jobs);

// Returns the job with this pid or run id, or the only one if `wanted` is empty. The failure is a sentence for the
// user, with a list of the jobs if there are several. It is pure.
base::Result<RunningJob> choose_job(const std::vector<RunningJob>& jobs, const std::string& wanted);

// Prints the running jobs of this user on this node. Returns the exit code. `environment` has lines "NAME=value". Text
// for standard output is passed to `print`, which returns an exit code.
int run_ls_command(const LsOptions& options, const std::vector<std::string>& environment, Log& log,
                   int (*print)(const std::string& text));

// Returns the list as text for people, or as one line of JSON. Both end with a line break. They are pure.
// docs/reference/top.md describes the document.
std::string list_text(std::span<const RunningJob> jobs);
std::string list_json(std::span<const RunningJob> jobs);

}  // namespace ddp::launcher

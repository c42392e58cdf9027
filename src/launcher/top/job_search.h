// These functions find the running jobs of this user on this node, and choose the one that is meant.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "launcher/view/job_snapshot.h"

namespace ddp::launcher {

struct RunningJob {
  std::string path;  // of the launcher's socket
  pid_t pid = 0;     // as the socket's name says
  bool has_answered = false;
  // If it has answered:
  int launcher_pid = 0;
  std::string run_id;
  std::string program;
  int ranks = 0;
  double uptime = 0;  // seconds
  // The view keeps this connection. A launcher that has place for one more view may refuse a second connection.
  std::shared_ptr<base::UniqueFd> connection;
  // If it refuses another view:
  std::string refusal;  // as the launcher says it

  friend bool operator==(const RunningJob&, const RunningJob&) = default;
};

// Asks each launcher with a socket in these directories. A launcher that does not answer takes
// limits::kViewConnectTime. Sockets of launchers that have ended are removed.
std::vector<RunningJob> find_jobs(const std::vector<std::string>& folders);

// Returns the job with this pid or run id, or the only one if `wanted` is empty. The failure is a sentence for the
// user, with a list of the jobs if there are several. It is pure.
base::Result<RunningJob> choose_job(const std::vector<RunningJob>& jobs, const std::string& wanted);

}  // namespace ddp::launcher

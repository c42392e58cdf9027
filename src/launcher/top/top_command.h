// Implements `ddplaunch top`: one process that shows a job of another launcher.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "launcher/cli/top_options.h"
#include "launcher/log/log.h"
#include "launcher/view/top_view.h"

namespace ddp::launcher {

// Shows a job until the user quits or the job ends, or prints it once. Returns the exit code. `environment` has lines
// "NAME=value". Text for standard output is passed to `print`, which returns an exit code.
int run_top_command(const TopOptions& options, const std::vector<std::string>& environment, Log& log,
                    int (*print)(const std::string& text));

// Returns what the terminal can show according to these variables. This function is pure.
FrameLook look_of_terminal(const TopOptions& options, const std::vector<std::string>& environment, bool is_terminal);

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
  double uptime = 0;  // seconds
  // The view keeps this connection. A launcher that has place for one more view may refuse a second connection.
  std::shared_ptr<base::UniqueFd> connection;
  // If it refuses another view:
  std::string refusal;  // as the launcher says it

  friend bool operator==(const RunningJob&, const RunningJob&) = default;
};

// Returns the job with this pid or run id, or the only one if `wanted` is empty. The failure is a sentence for the
// user, with a list of the jobs if there are several. It is pure.
base::Result<RunningJob> choose_job(const std::vector<RunningJob>& jobs, const std::string& wanted);

}  // namespace ddp::launcher

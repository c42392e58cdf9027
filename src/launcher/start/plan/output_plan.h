// OutputPlan says where each worker's output goes. It is a plain value and part of the launch plan.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/start/cli/options.h"
#include "launcher/start/plan/start_failure.h"

namespace ddp::launcher {

struct LaunchPlan;
struct NodeFacts;

struct StreamPlan {
  bool to_console = true;
  bool to_file = false;
  bool tagged = true;  // whether its lines have a tag; torchrun tags only text that it copies from a file

  friend bool operator==(const StreamPlan&, const StreamPlan&) = default;
};

struct WorkerOutputPlan {
  StreamPlan out;
  StreamPlan err;

  friend bool operator==(const WorkerOutputPlan&, const WorkerOutputPlan&) = default;
};

// Says where the files of the workers go.
struct RunFiles {
  enum class Kind : std::uint8_t {
    temporary,  // error files only, which are removed at the end
    kept,       // files that are kept in log_dir
    none,
  };
  Kind kind = Kind::temporary;
  std::string log_dir;

  // Returns the value of --log-dir, or std::nullopt for temporary files.
  std::optional<std::string> shown() const {
    if (kind == Kind::temporary) return std::nullopt;
    return kind == Kind::none ? std::string("/dev/null") : log_dir;
  }
};

struct OutputPlan {
  std::vector<WorkerOutputPlan> workers;  // by local rank
  // The tag precedes each line on the console. It may contain ${rank}, ${local_rank}, ${node}, ${role} and ${time}. If
  // it is empty, lines have no tag. A collapsed line has a list of ranks in place of the rank.
  std::string tag;
  bool collapse = false;                    // show identical lines of several ranks within limits::kCollapseWindow once
  bool lossless = false;                    // a slow console slows the workers; otherwise lines are dropped and counted
  bool color = false;                       // show the tag in colours
  std::vector<std::string> stdout_filters;  // lines with one of these words are also written to filtered_stdout.log
  std::vector<std::string> stderr_filters;
};

// Returns whether the launcher's own lines and the tags have colours. `environment` has lines "NAME=value".
bool wants_color(Color choice, const std::vector<std::string>& environment, bool is_terminal);

// Returns a failure if --local-ranks-filter hides the output of all workers, whose number the plan has. It is only a
// note when invoked as torchrun, and with several nodes, because they may have more workers.
std::optional<StartFailure> check_shown_ranks(const Options& options, const LaunchPlan& plan);

// Sets the plan's output and files for its workers, and adds to its notes what the user must know. The compatibility
// mode decides what the console shows by default.
void plan_output(const Options& options, const NodeFacts& facts, LaunchPlan& plan);

}  // namespace ddp::launcher

// OutputPlan: where each worker's output goes. Part of the launch plan; a value.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/cli/options.h"
#include "launcher/plan/start_failure.h"

namespace ddp::launcher {

struct LaunchPlan;
struct NodeFacts;

struct StreamPlan {
  bool to_console = true;
  bool to_file = false;
  bool tagged = true;  // on the console; torchrun tags only what it copies from a file

  friend bool operator==(const StreamPlan&, const StreamPlan&) = default;
};

struct WorkerOutputPlan {
  StreamPlan out;
  StreamPlan err;

  friend bool operator==(const WorkerOutputPlan&, const WorkerOutputPlan&) = default;
};

// Where what workers write to files goes.
struct RunFiles {
  enum class Kind : std::uint8_t {
    temporary,  // error files only, which are removed at the end
    kept,       // in log_dir
    none,
  };
  Kind kind = Kind::temporary;
  std::string log_dir;

  // As --log-dir has it; nothing: temporary ones.
  std::optional<std::string> shown() const {
    if (kind == Kind::temporary) return std::nullopt;
    return kind == Kind::none ? std::string("/dev/null") : log_dir;
  }
};

struct OutputPlan {
  std::vector<WorkerOutputPlan> workers;  // by local rank
  // Before each line on the console: ${rank}, ${local_rank}, ${node}, ${role}, ${time}; empty: nothing. A collapsed
  // line has a list of ranks in place of the rank.
  std::string tag;
  bool collapse = false;  // the same line of several ranks within limits::kCollapseWindow is shown once
  bool lossless = false;  // a console that is too slow slows the workers, instead of losing lines (counted)
  bool color = false;     // the tag in colours
  std::vector<std::string> stdout_filters;  // lines with one of these words go to filtered_stdout.log as well
  std::vector<std::string> stderr_filters;
};

// Whether the launcher's own lines and tags have colours. `environment`: lines "NAME=value".
bool wants_color(Color choice, const std::vector<std::string>& environment, bool is_terminal);

// A failure if --local-ranks-filter hides the output of all workers, whose number the plan has. When invoked as
// torchrun, and with several nodes, which may have more workers, that is a note.
std::optional<StartFailure> check_shown_ranks(const Options& options, const LaunchPlan& plan);

// Sets the plan's output and files for its workers, and adds what the user must know to its notes. The compatibility
// mode decides what is said on the console when nothing is asked for.
void plan_output(const Options& options, const NodeFacts& facts, LaunchPlan& plan);

}  // namespace ddp::launcher

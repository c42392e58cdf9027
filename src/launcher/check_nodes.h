// Checks the nodes of a job before it starts, for `ddplaunch doctor` and --check. On several nodes, it starts a job
// with one worker per node for that (docs/development/decisions/0086-the-doctor-is-a-job.md).
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "launcher/launch.h"
#include "launcher/run/remote/controller_link.h"
#include "launcher/start/cli/options.h"
#include "launcher/start/doctor/between/node_worker.h"
#include "launcher/start/doctor/checks.h"
#include "launcher/start/log/log.h"
#include "launcher/start/plan/launch_plan.h"

namespace ddp::launcher {

class NodeCheck {
 public:
  // Plans the check of this job. The failure is one that the job itself would have, such as a missing endpoint.
  static base::Result<NodeCheck, StartFailure> plan(const Options& job);

  // Returns whether other nodes take part.
  bool has_several_nodes() const { return plan_.nodes.several(); }
  // The job that checks.
  const LaunchPlan& job() const { return plan_; }

  // Checks this node. It takes eight seconds at most, and a minute more if it is deep. The calling process must have
  // one thread. `more` checks come before the others.
  void check_this_node(const DoctorOptions& options, const WorkerCount& workers, std::vector<doctor::Check> more = {});
  // Looks for the result of an earlier check of this allocation, in place of checking this node. Returns whether there
  // is one that is at least as deep, for this number of workers, with the same variables and facts.
  bool finds_kept(int workers, bool is_deep);
  // Keeps a result without failures for later jobs of this allocation, if a scheduler says which one it is.
  void keep(const doctor::NodeResult& result, bool is_deep) const;
  // Removes what is kept on this node.
  void forget() const;

  // Meets the other nodes, and returns what all have found. Returns how the job of the check ended if there is no
  // result; `log` has said why.
  base::Result<doctor::NodeResult, LaunchEnd> meet_others(Log& log, ControllerLink* controller);
  // Returns what is known without the other nodes.
  doctor::NodeResult alone() const;
  // Makes the check one of a job that has ended, with as many nodes as it had at last. It takes that job's token, and
  // does not wait long for nodes that may be lost.
  void follow(const LaunchPlan& ended, int nodes);

 private:
  explicit NodeCheck(LaunchPlan plan) : plan_(std::move(plan)) {}

  LaunchPlan plan_;
  int nodes_ = 0;  // of the user's job; 0 if only a scheduler knows
  doctor::NodeFindings own_;
  std::optional<doctor::NodeResult> kept_;
};

}  // namespace ddp::launcher

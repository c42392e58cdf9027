// Decides what a check means for the job that waits for it (--check), or that has hung. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/start/doctor/between/node_worker.h"
#include "launcher/start/log/log_line.h"
#include "launcher/start/plan/launch_plan.h"

namespace ddp::launcher::doctor {

struct CheckDecision {
  bool starts = true;          // this node takes part in the job
  bool is_left_out = false;    // and the job starts on the others
  int nodes = 0;               // those that take part
  std::vector<LogLine> lines;  // for the user of this node
};

// What a check after a hang of the transport has found.
struct HangFindings {
  std::vector<LogLine> lines;  // for the user of this node
  // The variable with which the job would not hang, as was proved on all nodes: see Finding. Empty if there is none.
  std::string fallback;
};
HangFindings explain_hang(const NodeResult& result);

// Returns what the proof of peer access has shown beside workers that hang, for the user. `where` names the node.
std::vector<LogLine> explain_proof(const std::string& where, const Findings& findings);

// A node that fails is left out if enough nodes remain, and if it is not the first one, at which the others meet.
// Otherwise the job does not start.
CheckDecision decide_on_check(const NodeResult& result, const NodesPlan& nodes);

}  // namespace ddp::launcher::doctor

// The doctor on several nodes is a job with one worker per node, which starts as any job does
// (docs/development/decisions/0086-the-doctor-is-a-job.md). Each worker tells the others in the store what its launcher
// has found on the node, and probes the ways to them.
#pragma once

#include <string>

#include "launcher/start/doctor/between/records.h"
#include "wire/json_fields.h"

namespace ddp::launcher::doctor {

// What a node knows at the end. All nodes know the same of the job.
struct NodeResult {
  int node = 0;
  int expected = 1;  // number of nodes
  JobRecord job;
  std::string id = {};   // of the check, on all nodes
  bool is_kept = false;  // all nodes have the result of the same earlier check, and nothing was checked again

  friend bool operator==(const NodeResult&, const NodeResult&) = default;
};
BOOST_DESCRIBE_STRUCT(NodeResult, (), (node, expected, job, id, is_kept))

// Runs `ddplaunch on-node`, and returns its exit code. RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say who it is.
// Reads the launcher's NodeFindings from kFindingsFile in DDP_DOCTOR_DIR, and writes the NodeResult to kResultFile.
// Failures are written to the standard error.
inline constexpr const char* kFindingsFile = "/findings";
inline constexpr const char* kResultFile = "/result";
int run_node_worker();

}  // namespace ddp::launcher::doctor

// Says what is wrong between the nodes of a job, and which nodes it can do without. Pure.
#pragma once

#include <vector>

#include "launcher/start/doctor/between/records.h"
#include "launcher/start/doctor/finding.h"

namespace ddp::launcher::doctor {

// Returns a finding for each check, in the order in which they are shown: answers, reach, packets, clocks, names,
// speed, differences. Checkpoints are in between if a directory is named. `expected` is the number of nodes that take
// part.
Findings findings_between(const JobRecord& job, int expected);

// Returns what `from` has found about the way to another node, or null.
const Path* path_between(const JobRecord& job, int from, int to);

// A value that differs, and the nodes that have it.
struct Difference {
  struct Value {
    std::string value;  // empty if these nodes have none
    std::vector<int> nodes;
  };
  std::string name;
  bool matters = false;
  std::vector<Value> values;  // the most frequent one first
};
std::vector<Difference> differences(const JobRecord& job);

// Returns the nodes that must be left out so that nothing fails: those of which a check fails, and those that others do
// not reach. Of two nodes that do not reach each other, it is the one with more such ways, or the later one. In order.
std::vector<int> nodes_to_leave_out(const JobRecord& job, int expected);

// Returns what other nodes than the first one need to come to the same decisions: no way on which all is well, and no
// finding that is ok. Of many nodes, all of it would be too much for the store.
JobRecord troubles_only(JobRecord job);

// Returns "node 1 (hgx-2)".
std::string name_of_node(const JobRecord& job, int node);
// Returns the names of these nodes: "node 1 (b), node 3 (d) and 5 more".
std::string names_of_nodes(const JobRecord& job, const std::vector<int>& nodes);

}  // namespace ddp::launcher::doctor

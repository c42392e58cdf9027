// The schedulers that start jobs, as a table. A new one is a row and a function that says which variable means what;
// what all schedulers have in common (contradictions, several of us on a node) is checked in cluster_env.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/facts/scheduler_variables.h"

namespace ddp::launcher {

// What the variables of one scheduler say, each with the variable that it came from.
struct SchedulerFacts {
  std::optional<Number> node_count;  // nothing: as many as there are hosts, or not said
  std::optional<Number> node_rank;   // nothing: where this node's name is among the hosts
  std::optional<Number> workers;
  HostNames hosts;
  std::string job_id;
  std::optional<std::string> master_addr;
  std::optional<std::uint16_t> master_port;
  std::string several_tasks;          // what says that there are several of us on a node; empty: one
  std::string declined;               // why the scheduler did not start us although its signs are there; empty: it did
  std::vector<std::string> warnings;  // also of a scheduler that did not
};

struct Scheduler {
  std::string_view name;           // of --scheduler; several rows may share it, the first that fits is taken
  std::string_view title;          // in messages
  std::vector<std::string> signs;  // variables that are all set where it started us
  SchedulerFacts (*read)(SchedulerVariables&);
  std::string_view start = "";    // how one of us is started on each node; empty: no command does it
  bool starts_processes = false;  // its variables belong to a process that it started, not to an allocation
  bool has_own_daemons = false;   // which another scheduler may have started, whose variables we see as well
  bool only_if_asked = false;     // not with --scheduler=auto
};

// In the order in which --scheduler=auto looks at them.
std::span<const Scheduler> scheduler_table();

// Without a scheduler: why there may be other nodes all the same. A batch script of a job on several nodes, as only
// what srun starts runs on all of them; a pod of several.
std::optional<std::string> warn_of_lone_node(const SchedulerVariables& variables);

}  // namespace ddp::launcher

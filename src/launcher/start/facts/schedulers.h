// Defines the table of the schedulers that start jobs. A new scheduler is a row and a function that says which variable
// means what. Checks that all schedulers share (contradictions, several launchers on a node) are in cluster_env.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/start/facts/scheduler_variables.h"

namespace ddp::launcher {

// Holds what the variables of one scheduler say. Numbers and host names carry the variable that they came from.
struct SchedulerFacts {
  std::optional<Number> node_count;  // std::nullopt if it is the number of hosts, or not reported
  std::optional<Number> node_rank;   // std::nullopt if this node's name must be searched for among the hosts
  std::optional<Number> workers;
  HostNames hosts;
  std::string job_id;
  std::optional<std::string> master_addr;
  std::optional<std::uint16_t> master_port;
  std::string several_tasks;          // variable that shows several launchers on a node; empty if there is none
  std::string declined;               // why the scheduler did not start the launcher despite its signs; empty if it did
  std::vector<std::string> warnings;  // also filled if the scheduler did not start the launcher
};

struct Scheduler {
  std::string_view name;           // value of --scheduler; if several rows share it, the first that fits is used
  std::string_view title;          // name in messages
  std::vector<std::string> signs;  // variables that are all set if the scheduler started the launcher
  SchedulerFacts (*read)(SchedulerVariables&);
  std::string_view start = "";    // command that starts a launcher on each node; empty if no command does
  bool starts_processes = false;  // its variables belong to a process that it started, not to an allocation
  bool has_own_daemons = false;   // another scheduler may have started them, and its variables are then set too
  bool only_if_asked = false;     // not used with --scheduler=auto
};

// Returns the schedulers in the order in which --scheduler=auto tries them.
std::span<const Scheduler> scheduler_table();

// Returns a warning if no scheduler started the launcher but there may be other nodes. One case is a batch script of a
// job on several nodes: only processes that srun starts run on all of them. The other case is one of several pods.
std::optional<std::string> warn_of_lone_node(const SchedulerVariables& variables);

}  // namespace ddp::launcher

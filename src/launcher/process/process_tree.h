// Processes that descend from this one, also those that a worker left behind.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <set>
#include <vector>

namespace ddp::launcher {

// Makes this process adopt the orphans among its descendants (a worker's grandchild whose parent died), so that they
// can be found and reaped.
void become_subreaper();

// The children of `pid`, whichever of its threads made them.
std::vector<pid_t> children_of(pid_t pid);

// A zombie, or gone.
bool is_dead(pid_t pid);

// All descendants of `root` except the given ones and their descendants.
std::vector<pid_t> descendants(pid_t root, const std::set<pid_t>& except);

// Reaps every dead child but those that `is_known` claims: their owner reaps them. Returns those that it reaped.
std::vector<pid_t> reap_orphans(const std::function<bool(pid_t)>& is_known);

// Kills all descendants except the given ones, as new ones appear, until none is left or `limit` has passed, and reaps
// those that become ours. Blocks. Returns those that could not be killed. A number that has passed to a stranger in the
// meantime is not signalled: a process is held fast (pidfd) and only then asked whose child it is.
std::vector<pid_t> kill_descendants(const std::set<pid_t>& except, std::chrono::milliseconds limit);

}  // namespace ddp::launcher

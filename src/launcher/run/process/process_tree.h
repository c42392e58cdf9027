// Finds, reaps and kills processes that descend from this one, also those that a worker left behind.
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

// Returns the children of `pid`, whichever of its threads created them.
std::vector<pid_t> children_of(pid_t pid);

// Returns whether this process sees other pids than the node, as in a container. The driver reports the node's.
bool has_own_pids();

// Returns whether the process is a zombie or gone.
bool is_dead(pid_t pid);

// Returns all descendants of `root` except the given ones and their descendants.
std::vector<pid_t> descendants(pid_t root, const std::set<pid_t>& except);

// Reaps every dead child except those that `is_known` claims: their owner reaps them. Returns the children that it
// reaped.
std::vector<pid_t> reap_orphans(const std::function<bool(pid_t)>& is_known);

// Kills all descendants except the given ones, also new ones, until none is left or `limit` has passed. Reaps those
// that become children of this process. Blocks. Returns the processes that could not be killed. A pid that has passed
// to a foreign process in the meantime is not signalled: a pidfd holds the process before its parent is checked.
std::vector<pid_t> kill_descendants(const std::set<pid_t>& except, std::chrono::milliseconds limit);

}  // namespace ddp::launcher

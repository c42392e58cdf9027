// Builds and compares what a node reports about itself when it connects, so that nodes that do not belong together are
// detected. make_node_hello() reads files and clocks; the other functions are pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "launcher/start/plan/launch_plan.h"
#include "wire/control_message.h"

namespace ddp::launcher {

wire::NodeHello make_node_hello(const LaunchPlan& plan);
// Sets the clocks of the hello to the present time.
void set_clocks(wire::NodeHello& hello);

// Returns whether another node may lead the job when the first one is lost. Nodes with numbers are all needed.
bool may_be_led_by_any_node(const LaunchPlan& plan);

// Returns the name of the job that checks the nodes of this one.
inline std::string name_of_check(const std::string& run_id) {
  return run_id + ".check";
}

// --- These pure functions compare a connecting node with the coordinator's own node.

// Returns why the node cannot belong to this job, as in "it belongs to job 'b', …", or an empty string if it can. If
// `is_static`, nodes give their numbers.
std::string difference_of_kind(const wire::NodeHello& hello, const wire::NodeHello& own, bool is_static, int max_nodes);

// Describes what should be the same on all nodes and is not. The user sees it once for each value of `of`.
struct Remark {
  std::string of;
  std::string line;
};
// `now` is the coordinator's CLOCK_MONOTONIC.
std::vector<Remark> remarks_on(const wire::NodeHello& hello, const wire::NodeHello& own, std::chrono::nanoseconds now);

// Returns how far a node's clock is ahead of the coordinator's. A node may report any value.
std::chrono::nanoseconds clock_ahead(std::int64_t theirs, std::chrono::nanoseconds ours);

}  // namespace ddp::launcher

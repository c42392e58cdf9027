// What a node says of itself when it comes: by which nodes that do not belong together are told apart. Pure but for the
// program's file, which is read.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "launcher/plan/launch_plan.h"
#include "wire/control_message.h"

namespace ddp::launcher {

wire::NodeHello make_node_hello(const LaunchPlan& plan);

// --- How a node that comes differs from the coordinator's own. Pure.

// Why it cannot belong to this job: "it belongs to job 'b', …"; empty: it can. `is_static`: nodes say their numbers.
std::string difference_of_kind(const wire::NodeHello& hello, const wire::NodeHello& own, bool is_static, int max_nodes);

// What should be the same and is not: for the user, once for each thing that it is of.
struct Remark {
  std::string of;
  std::string line;
};
// `now`: of our CLOCK_MONOTONIC.
std::vector<Remark> remarks_on(const wire::NodeHello& hello, const wire::NodeHello& own, std::chrono::nanoseconds now);

// Of a clock, against ours. A node may say anything.
std::chrono::nanoseconds clock_ahead(std::int64_t theirs, std::chrono::nanoseconds ours);

}  // namespace ddp::launcher

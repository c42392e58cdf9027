// What a node says of itself when it comes: by which nodes that do not belong together are told apart. Pure but for the
// program's file, which is read.
#pragma once

#include "launcher/plan/launch_plan.h"
#include "wire/control_message.h"

namespace ddp::launcher {

wire::NodeHello make_node_hello(const LaunchPlan& plan);

}  // namespace ddp::launcher

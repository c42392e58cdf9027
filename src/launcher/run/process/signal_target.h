// SignalTarget says which processes of a worker get a signal.
#pragma once

namespace ddp::launcher {

// A worker leads a process group.
enum class SignalTarget { leader, group };

}  // namespace ddp::launcher

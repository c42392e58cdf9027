// HangPlan says what is done about ranks that make no progress: see watchdog/stall_policy.h. It is a plain value.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "launcher/start/cli/choices.h"
#include "wire/limits.h"

namespace ddp::launcher {

struct HangPlan {
  std::optional<std::chrono::milliseconds> timeout;  // --hang-timeout, if given; 0 disables the detection of hangs
  HangLimit limit = HangLimit::fixed;
  HangAction action = HangAction::kill;
  // If the user has set no limit, a rank that shows no sign of life for this long is given up.
  std::chrono::milliseconds still = limits::kHangStill;
  std::string trace_file;  // value of DDP_HANG_TRACE; empty if no trace is written

  bool is_off() const { return timeout && timeout->count() == 0; }
};

}  // namespace ddp::launcher

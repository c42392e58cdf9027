// Describes the events of a job in words, for -v and --launcher-log. The function is pure.
#pragma once

#include <optional>

#include "launcher/run/job/event.h"
#include "launcher/start/log/log_line.h"

namespace ddp::launcher {

// `first_rank` is the first rank of the node. Returns std::nullopt for an event that is reported in another way, or
// that is only an alarm.
std::optional<LogLine> event_text(const Event& event, int first_rank);

}  // namespace ddp::launcher

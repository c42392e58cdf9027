// What happens in a job, in words, for -v and --launcher-log. Pure.
#pragma once

#include <optional>

#include "launcher/job/event.h"
#include "launcher/log/log_line.h"

namespace ddp::launcher {

// `first_rank`: of the node. Returns std::nullopt for an event that is reported otherwise, or that is only an alarm.
std::optional<LogLine> event_text(const Event& event, int first_rank);

}  // namespace ddp::launcher

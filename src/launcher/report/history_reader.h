// Reads the event `history` back, for a report that is made from an event log.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "launcher/view/history_data.h"

namespace ddp::launcher {

AttemptHistory read_history(const nlohmann::json& event);

}  // namespace ddp::launcher

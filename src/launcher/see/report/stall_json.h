// Builds JSON about ranks that make no progress: docs/reference/event-log.md.
#pragma once

#include <nlohmann/json.hpp>

#include <chrono>

#include "launcher/run/ranks/straggler_report.h"
#include "launcher/run/ranks/verdict.h"
#include "launcher/run/watchdog/hang_news.h"

namespace ddp::launcher {

// Returns seconds, to the microsecond.
double seconds_json(std::chrono::nanoseconds duration);

nlohmann::ordered_json verdict_json(const Verdict& verdict);
nlohmann::ordered_json stall_json(const HangNews& news);
nlohmann::ordered_json stragglers_json(const StragglerReport& report);

}  // namespace ddp::launcher

// Judges pictures in which no rank waits in a known operation. All functions are pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "launcher/run/ranks/picture.h"
#include "launcher/start/plan/hang_plan.h"

namespace ddp::launcher {

struct Silence {
  std::optional<Verdict> verdict;   // `silent` or `behind`
  std::chrono::nanoseconds age{0};  // how long the ranks that it concerns have shown nothing
  bool is_unsure = false;           // it is not known at this moment what all ranks do
  std::string reason;               // if there is no verdict: why there is none
};

// It is a hang only if no rank does anything. Ranks that send heartbeats, and show nothing else, are judged by these.
// If the user gave a limit, ranks that wait longer than that for others to come are a hang, too.
Silence find_silence(const Picture& picture, const HangPlan& plan);

// Returns for how long the ranks have shown nothing on their pages, if that matters. Programs without the
// runtime may sleep for as long as they like, unless the user gave a limit.
std::chrono::nanoseconds silence_of_pages(const Picture& picture, const HangPlan& plan);

}  // namespace ddp::launcher

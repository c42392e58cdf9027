// Judges what the ranks do: whether some make no progress, why, and what follows from it. Everything here is a pure
// function of a picture and of the user's options.
// docs/development/decisions/0026-three-classes-of-hangs.md, docs/reference/diagnoses.md
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "launcher/run/ranks/picture.h"
#include "launcher/run/watchdog/stall_policy.h"
#include "launcher/start/plan/hang_plan.h"

namespace ddp::launcher {

struct Judgement {
  std::vector<Verdict> verdicts;    // everything that is wrong
  std::optional<Verdict> verdict;   // the most pressing of them
  std::chrono::nanoseconds age{0};  // time since the last progress of those that `verdict` concerns
  std::optional<StallJudgement>
      stall;               // what follows from `verdict`; std::nullopt if the ranks' calls are not known yet
  bool is_unsure = false;  // too little is known at this moment, so what was reported stays
  // Says why there is no verdict, or what is known of those that the verdict concerns and what follows from that. For
  // example "rank 3 has been awaited for 4.0 s; rank 3: it uses a processor (CPU 90 %); that is reported
  // after 15.0 s; the limit of 30 min (no sign of life) is over in 30 min".
  std::string explanation;
};

Judgement judge(const Picture& picture, const HangPlan& plan);

// Says how deep the next sample should be, and whether it should contain the activity of the processes
// (RankView::activity).
struct NextSample {
  SampleDepth depth = SampleDepth::pages;
  bool measures_activity = false;
};

// Once per second, the next sample is deeper than the pages, and it is `all` if a rank seems to wait.
NextSample next_sample(const Picture& picture, const HangPlan& plan);

}  // namespace ddp::launcher

// Finds the root causes among many verdicts: a rank that others wait for may itself wait for another rank. All
// functions are pure.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "launcher/watchdog/verdict.h"

namespace ddp::launcher {

// Returns the verdicts that are root causes. These are verdicts whose culprits do not wait themselves, and one verdict
// for each circle of ranks that wait for each other. Ranks that merely wait for these are left out. Each element of
// `verdicts` considers its own operation only. Verdicts in which no data moves may be consequences of something that is
// not visible, so they come last.
std::vector<Verdict> root_causes(const std::vector<Verdict>& verdicts, std::span<const RankView> ranks);

// Returns whether a reader, and not the program, has written the state of the verdict's collective to the pages.
bool is_sampled(const Verdict& verdict, std::span<const RankView> ranks);

// Returns whether the reported stall is over. A collective for which no rank waits at the moment may still be
// unfinished, so that is not enough.
bool has_gone_on(const Verdict& told, std::span<const RankView> ranks);

// Returns whether all threads that call operations wait, and no continuation of the program runs.
bool only_waits(const RankView& rank);

// Returns the ranks that do not only wait. They may join ranks that wait for others to come, or begin a collective.
std::vector<int> free_ranks(std::span<const RankView> ranks);

// Returns whether the first thread sleeps or waits for a file or a process, not for a message or another thread, which
// may wait for another rank. A thread that does not sleep may wait for a GPU. Returns std::nullopt if that is unknown.
std::optional<bool> waits_for_no_rank(const ProcessSample& process);

// Finds ranks that do not wait for other ranks, if none of them shows collectives. Returns the ranks whose first thread
// sleeps or waits for something else, if the first threads of the others wait for messages or threads. Returns an empty
// list if all do the same, or if that is unknown.
std::vector<int> find_odd_ranks(std::span<const RankView> ranks);

}  // namespace ddp::launcher

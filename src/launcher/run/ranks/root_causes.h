// Finds the root causes among waits: a rank that others wait for may itself wait for another rank. All functions are
// pure.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "launcher/run/ranks/verdict.h"

namespace ddp::launcher {

// Returns what is wrong, with one verdict per cause, because independent groups of ranks may wait for different causes.
// A rank that waits is not a culprit itself, and ranks that merely wait for another cause are left out. Ranks that wait
// for each other in a circle are one cause together. Verdicts in which no data moves may be consequences of something
// that is not visible, so they come last. Returns an empty list if no rank waits. Never returns `silent` or `behind`,
// which take time to recognise.
std::vector<Verdict> find_verdicts(std::span<const RankView> ranks);

// Returns whether a reader, and not the program, has written the state of the verdict's collective to the pages.
bool is_sampled(const Verdict& verdict, std::span<const RankView> ranks);

// Returns whether the reported stall is over. A collective for which no rank waits at the moment may still be
// unfinished, so that is not enough.
bool has_gone_on(const Verdict& reported, std::span<const RankView> ranks);

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

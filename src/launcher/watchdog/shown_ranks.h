// What nodes show each other of their ranks, as text: JSON (docs/development/protocol.md, section 7). What does not
// read as such is nothing; a node that lies about its ranks can harm nobody but its own job.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "launcher/process/rank_view.h"
#include "launcher/watchdog/evidence/evidence_taker.h"

namespace ddp::launcher {

// Of calls either all that is known or, as a digest, their numbers and fingerprints.
enum class ShownCalls : bool { digest, all };

std::string show_ranks(std::span<const RankView> ranks, ShownCalls calls);
// `clock_ahead`: of that node's CLOCK_MONOTONIC, against ours. The times are ours then, but for what the message took.
std::vector<RankView> read_ranks(const std::string& text, const std::string& node,
                                 std::chrono::nanoseconds clock_ahead);

// About `most` bytes at most: what is too long is left out, and that is said in its place.
std::string show_evidence(const Evidence& evidence, std::size_t most);
Evidence read_evidence(const std::string& text);

}  // namespace ddp::launcher

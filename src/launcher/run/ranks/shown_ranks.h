// Converts the messages of nodes about their ranks to JSON and back (docs/development/protocol.md, section 7). Invalid
// text yields an empty result. A node that lies about its ranks can harm only its own job.
#pragma once

#include <chrono>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "launcher/run/ranks/evidence.h"
#include "launcher/run/ranks/rank_view.h"

namespace ddp::launcher {

// Calls are shown as a digest (numbers and fingerprints), or with all that is known.
enum class ShownCalls : bool { digest, all };

std::string show_ranks(std::span<const RankView> ranks, ShownCalls calls);
// `clock_ahead` is how far that node's CLOCK_MONOTONIC is ahead of this node's. The times in the result belong to this
// node's clock, except for the time that the message took.
std::vector<RankView> read_ranks(const std::string& text, const std::string& node,
                                 std::chrono::nanoseconds clock_ahead);

// Contains only what the ranks use, and their numbers.
std::string show_usage(std::span<const RankView> ranks);
std::map<int, RankUsage> read_usage(const std::string& text, std::chrono::nanoseconds clock_ahead);

// Returns at most about `most` bytes. A part that is too long is replaced by a note.
std::string show_evidence(const Evidence& evidence, std::size_t most);
Evidence read_evidence(const std::string& text);

}  // namespace ddp::launcher

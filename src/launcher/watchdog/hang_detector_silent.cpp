// Judges jobs in which no rank waits in a collective.
#include <algorithm>

#include "launcher/watchdog/hang_detector.h"
#include "launcher/watchdog/root_causes.h"

namespace ddp::launcher {

// If no rank waits in a collective, it is a hang only if no rank does anything else either. If the user gave a limit,
// ranks that wait longer than that for others to come are a hang, too.
std::optional<Verdict> HangDetector::silent(std::span<const RankView> ranks) {
  if (const auto verdict = waits_for_others_to_come(ranks)) return verdict;
  if (!silence_concerns_us_ || page_silence_ < limits::kHangFirstWord) return std::nullopt;
  Nanoseconds still = page_silence_;
  const std::vector<int> free = free_ranks(ranks);
  for (const RankView& rank : ranks) {
    const RankClock& clock = ranks_.at(rank.rank);
    // A rank that has just come or ended, or whose wait has just ended, does something.
    still = std::min(still, clock.settled());
    if (rank.has_ended) continue;
    // Until the activity is measured again, or the rank waits again, the reported verdict stays.
    if (!rank.activity || clock.pauses()) {
      return told_ && is_without_calls(told_->kind) ? std::optional(Verdict{}) : std::nullopt;
    }
    // The activity of a waiting rank is no sign of life.
    if (free.empty()) still = std::min(still, clock.unmoved());
    if (!only_waits(rank)) still = std::min(still, clock.still());
  }
  silence_ = still;
  if (silence_.count() == 0) return std::nullopt;
  Verdict verdict;
  for (const RankView& rank : ranks) {
    // A thread that waits for a continuation of its own rank does not wait for other ranks.
    const bool waits_for_others = rank.page.waiting_threads > rank.page.continuations;
    if (!rank.has_ended && waits_for_others) verdict.waiting.push_back(rank.rank);
  }
  return verdict;
}

std::optional<Verdict> HangDetector::waits_for_others_to_come(std::span<const RankView> ranks) {
  if (!plan_.timeout) return std::nullopt;
  Verdict verdict;
  Nanoseconds waited{0};
  Nanoseconds unchanged = Nanoseconds::max();
  for (const RankView& rank : ranks) {
    if (rank.has_ended) continue;
    const RankClock& clock = ranks_.at(rank.rank);
    // Any rank that does not wait may be the awaited one, so its last progress counts.
    unchanged = std::min(unchanged, clock.age());
    if (rank.page.waiting_threads == 0) continue;
    verdict.waiting.push_back(rank.rank);
    waited = std::max(waited, clock.waited());
  }
  if (verdict.waiting.empty() || std::min(waited, unchanged).count() == 0) return std::nullopt;
  silence_ = std::min(waited, unchanged);
  return verdict;
}

// Returns the silence of the running rank that has been silent for longest.
HangDetector::Nanoseconds HangDetector::longest_silence(std::span<const RankView> ranks) const {
  Nanoseconds longest{0};
  for (const RankView& rank : ranks) {
    const auto clock = ranks_.find(rank.rank);
    if (!rank.has_ended && clock != ranks_.end()) longest = std::max(longest, clock->second.age());
  }
  return longest;
}

// Ranks that send heartbeats are judged by them alone, whatever else they do.
std::optional<Verdict> HangDetector::behind(std::span<const RankView> ranks) const {
  if (silence_ < limits::kHangFirstWord) return std::nullopt;
  Verdict verdict;
  verdict.kind = VerdictKind::behind;
  std::uint64_t fewest = ~std::uint64_t{0};
  std::uint64_t most = 0;
  std::vector<int> still;
  std::vector<int> fewest_beats;
  for (const RankView& rank : ranks) {
    if (rank.has_ended) continue;
    // A rank is stuck even if it fell silent a step later than the others.
    if (ranks_.at(rank.rank).age() > silence_ / 2) still.push_back(rank.rank);
    if (rank.page.steps < fewest) fewest_beats.clear();
    fewest = std::min(fewest, rank.page.steps);
    most = std::max(most, rank.page.steps);
    if (rank.page.steps == fewest) fewest_beats.push_back(rank.rank);
  }
  const bool others_go_on = std::ranges::any_of(ranks, [&](const RankView& rank) {
    return !rank.has_ended && std::ranges::find(still, rank.rank) == still.end();
  });
  verdict.culprits = others_go_on ? still : fewest < most ? fewest_beats : find_odd_ranks(ranks);
  for (const RankView& rank : ranks) {
    if (!rank.has_ended && !verdict.blames(rank.rank)) verdict.waiting.push_back(rank.rank);
  }
  if (verdict.culprits.empty()) verdict.kind = VerdictKind::silent;
  return verdict;
}

}  // namespace ddp::launcher

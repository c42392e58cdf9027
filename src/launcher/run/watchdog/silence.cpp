#include "launcher/run/watchdog/silence.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/text.h"
#include "launcher/limits.h"
#include "launcher/run/ranks/root_causes.h"

namespace ddp::launcher {
namespace {

using Nanoseconds = std::chrono::nanoseconds;

// Returns whether the rank shows heartbeats and nothing else.
bool sends_heartbeats(const RankView& rank) {
  return rank.page.is_written && rank.page.steps > 0 && rank.page.groups.empty();
}

bool all_send_heartbeats(const Picture& picture) {
  const auto has_ended = [](const RankView& rank) { return rank.has_ended; };
  return !std::ranges::all_of(picture.ranks, has_ended) && std::ranges::all_of(picture.ranks, [](const RankView& rank) {
    return rank.has_ended || sends_heartbeats(rank);
  });
}

bool silence_counts(const Picture& picture, const HangPlan& plan) {
  return plan.timeout ||
         std::ranges::any_of(picture.ranks, [](const RankView& rank) { return rank.page.is_written || rank.is_torch; });
}

// Returns the time since the last progress of the running rank that has made none for longest.
Nanoseconds longest_without_progress(const Picture& picture) {
  Nanoseconds longest{0};
  for (const RankView& rank : picture.ranks) {
    if (!rank.has_ended) longest = std::max(longest, picture.now - picture.times.at(rank.rank).progress_at());
  }
  return longest;
}

// Ranks that send heartbeats are judged by them alone, whatever else they do.
Silence find_ranks_behind(const Picture& picture) {
  Silence silence;
  silence.age = longest_without_progress(picture);
  silence.reason = "each rank sent a heartbeat in the last " + base::human_duration(silence.age);
  if (silence.age < limits::kHangFirstWord) return silence;
  std::uint64_t fewest = ~std::uint64_t{0};
  std::uint64_t most = 0;
  std::size_t running = 0;
  std::vector<int> still;
  std::vector<int> with_fewest;
  for (const RankView& rank : picture.ranks) {
    if (rank.has_ended) continue;
    ++running;
    // A rank is stuck even if it fell silent a step later than the others.
    if (picture.now - picture.times.at(rank.rank).progress_at() > silence.age / 2) still.push_back(rank.rank);
    if (rank.page.steps < fewest) with_fewest.clear();
    fewest = std::min(fewest, rank.page.steps);
    most = std::max(most, rank.page.steps);
    if (rank.page.steps == fewest) with_fewest.push_back(rank.rank);
  }
  Verdict& verdict = silence.verdict.emplace();
  verdict.culprits = still.size() < running ? still : fewest < most ? with_fewest : find_odd_ranks(picture.ranks);
  for (const RankView& rank : picture.ranks) {
    if (!rank.has_ended && !verdict.blames(rank.rank)) verdict.waiting.push_back(rank.rank);
  }
  verdict.kind = verdict.culprits.empty() ? VerdictKind::silent : VerdictKind::behind;
  return silence;
}

Silence wait_for_others_to_come(const Picture& picture) {
  Verdict verdict;
  Nanoseconds waited{0};
  Nanoseconds unchanged = Nanoseconds::max();
  for (const RankView& rank : picture.ranks) {
    // Any rank that does not wait may be the awaited one, so its last progress counts, and its end.
    const RankTimes& times = picture.times.at(rank.rank);
    unchanged = std::min(unchanged, picture.now - (rank.has_ended ? times.settled_since() : times.progress_at()));
    if (rank.has_ended || rank.page.waiting_threads == 0) continue;
    verdict.waiting.push_back(rank.rank);
    waited = std::max(waited, picture.now - times.may_wait_since(picture.now));
  }
  Silence silence;
  silence.age = std::min(waited, unchanged);
  if (silence.age.count() > 0) silence.verdict = verdict;
  return silence;
}

// A rank that only waits lives by the data that it moves. A rank that has just come or ended, or whose wait has just
// ended, does something.
JobTime last_sign_of(const RankView& rank, const RankTimes& times) {
  if (rank.has_ended) return times.settled_since();
  return std::max(times.settled_since(), only_waits(rank) ? times.data_at() : times.sign_at());
}

Silence find_silent_ranks(const Picture& picture, const HangPlan& plan) {
  Silence silence;
  silence.age = silence_of_pages(picture, plan);
  silence.reason = "no rank waits in a known operation";
  if (silence.age < limits::kHangFirstWord) return silence;
  Verdict verdict;
  for (const RankView& rank : picture.ranks) {
    const RankTimes& times = picture.times.at(rank.rank);
    const Nanoseconds age = picture.now - last_sign_of(rank, times);
    if (age < silence.age) {
      silence.age = age;
      silence.reason =
          "rank " + std::to_string(rank.rank) + " showed a sign of life " + base::human_duration(age) + " ago";
    }
    // The activity is to be measured, or the rank may wait again.
    if (!rank.has_ended && (!rank.activity || times.pauses())) {
      silence.is_unsure = true;
      silence.reason = "it is not known yet what rank " + std::to_string(rank.rank) + " does";
      return silence;
    }
    // A thread that waits for a continuation of its own rank does not wait for other ranks.
    const bool waits_for_others = rank.page.waiting_threads > rank.page.continuations;
    if (!rank.has_ended && waits_for_others) verdict.waiting.push_back(rank.rank);
  }
  if (silence.age.count() > 0) silence.verdict = verdict;
  return silence;
}

}  // namespace

Nanoseconds silence_of_pages(const Picture& picture, const HangPlan& plan) {
  Nanoseconds silence{0};
  if (silence_counts(picture, plan)) silence = picture.now - picture.changed_at;
  return all_send_heartbeats(picture) ? std::max(silence, longest_without_progress(picture)) : silence;
}

Silence find_silence(const Picture& picture, const HangPlan& plan) {
  if (picture.depth != SampleDepth::all) return {{}, {}, false, "no rank waits"};
  if (all_send_heartbeats(picture)) return find_ranks_behind(picture);
  Silence silence;
  if (plan.timeout) silence = wait_for_others_to_come(picture);
  return silence.verdict ? silence : find_silent_ranks(picture, plan);
}

}  // namespace ddp::launcher

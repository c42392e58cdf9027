#include "launcher/run/ranks/rank_book.h"

#include <algorithm>
#include <utility>

#include "launcher/limits.h"
#include "launcher/run/ranks/root_causes.h"

namespace ddp::launcher {
namespace {

constexpr int kNoCulprit = -1;

std::vector<int> blamed_by(const Verdict& verdict) {
  return verdict.culprits.empty() ? std::vector{kNoCulprit} : verdict.culprits;
}

}  // namespace

RankBook::RankBook(bool is_part, std::chrono::nanoseconds longest_interval)
    : clock_(longest_interval), longest_interval_(longest_interval) {
  picture_.is_part = is_part;
  picture_.since_deep = limits::kHangEvidence;
}

void RankBook::pass(std::chrono::nanoseconds elapsed, std::uint64_t taken_at) {
  clock_.set_standing_still(!picture_.stopped.empty());
  clock_.pass(elapsed);
  picture_.now = clock_.now();
  picture_.taken_at = taken_at;
  picture_.elapsed = elapsed;
  picture_.has_news = false;
  picture_.depth = SampleDepth::pages;
  picture_.since_deep += std::min(elapsed, longest_interval_);
}

void RankBook::add(std::vector<RankView> ranks, SampleDepth depth) {
  differences_ = differences_of(ranks, depth == SampleDepth::calls || depth == SampleDepth::all, differences_);
  complete_launches(ranks, differences_);
  const std::vector<RankView> before = std::exchange(picture_.ranks, std::move(ranks));
  picture_.depth = depth;
  picture_.has_news = true;
  follow_ranks(before);
  follow_groups();
  if (depth == SampleDepth::states || depth == SampleDepth::all) {
    picture_.since_deep = std::chrono::nanoseconds(0);
    follow_stops();
    follow_waits();
  }
  picture_.moments = moments_of(picture_.ranks);
  // Most samples contain only pages. A process stays stopped until a deeper sample shows that it runs.
  for (std::size_t i = 0; i < picture_.ranks.size(); ++i) {
    const RankView& rank = picture_.ranks[i];
    if (picture_.stopped.contains(rank.rank) && !rank.has_ended) picture_.moments[i].state = RankState::stopped;
  }
}

void RankBook::follow_ranks(const std::vector<RankView>& before) {
  for (std::size_t i = 0; i < picture_.ranks.size(); ++i) {
    const RankView& rank = picture_.ranks[i];
    const bool has_place = i < before.size() && before[i].rank == rank.rank;
    const auto known = has_place ? before.begin() + static_cast<std::ptrdiff_t>(i)
                                 : std::ranges::find(before, rank.rank, &RankView::rank);
    const bool has_progress = known == before.end() ? rank.page != PageView() : known->page != rank.page;
    if (has_progress) picture_.changed_at = picture_.now;
    picture_.times[rank.rank].add(rank, has_progress, picture_.now);
  }
}

// A pause that has ended was harmless: its length is learnt.
void RankBook::follow_groups() {
  std::map<GroupKey, std::vector<GroupView>> groups;
  for (const RankView& rank : picture_.ranks) {
    for (const GroupView& group : rank.page.groups) groups[key_of(group)].push_back(group);
  }
  for (const auto& [key, seen] : groups) {
    const auto before = groups_.find(key);
    if (before != groups_.end() && before->second == seen) continue;
    GroupTimes& times = picture_.groups[key];
    if (times.is_warm) picture_.longest_pause = std::max(picture_.longest_pause, picture_.now - times.progress_at);
    times.is_warm =
        std::ranges::all_of(seen, [](const auto& group) { return group.finished >= limits::kHangWarmCalls; });
    times.somebody_waits = std::ranges::any_of(seen, [](const auto& group) {
      return group.called > group.finished || group.transfers_called > group.transfers_finished;
    });
    times.progress_at = picture_.now;
    if (seen.front().is_by_stack) times.progress_at -= limits::kStackRest;  // the thread rested this long
  }
  groups_ = std::move(groups);
  std::erase_if(picture_.groups, [&](const auto& entry) { return !groups_.contains(entry.first); });
}

void RankBook::follow_stops() {
  picture_.stopped.clear();
  std::map<int, ProcessSample> traced;
  for (const RankView& rank : picture_.ranks) {
    if (rank.has_ended || !rank.process || !rank.process->is_stopped()) continue;
    // A tracer such as strace stops the process only for moments. A debugger stops it for long.
    const auto before = traced_.find(rank.rank);
    const bool is_passing = rank.process->state == 't' && (before == traced_.end() || before->second != *rank.process);
    if (!is_passing) picture_.stopped.insert(rank.rank);
    traced[rank.rank] = *rank.process;
  }
  traced_ = std::move(traced);
}

// A sample may fall into the moment in which a rank ends one wait or begins another. Then it blames a rank that is not
// late.
void RankBook::follow_waits() {
  const std::vector<Wait> before = std::exchange(picture_.waits, {});
  if (picture_.depth != SampleDepth::all) return;
  for (Verdict& verdict : find_verdicts(picture_.ranks)) {
    for (const int rank : blamed_by(verdict)) {
      blamed_.try_emplace(rank, Blame{picture_.now, picture_.now}).first->second.last = picture_.now;
    }
    picture_.waits.push_back({std::move(verdict), {}, 0});
  }
  std::erase_if(blamed_, [this](const auto& entry) { return picture_.now - entry.second.last >= limits::kBlameGap; });
  for (Wait& wait : picture_.waits) {
    wait.blamed_since = blamed_since(wait.verdict);
    if (!wait.verdict.is_proven_circle()) continue;
    const auto same = std::ranges::find_if(before, [&](const Wait& one) {
      return one.proofs > 0 && wait.verdict.is_of(one.verdict) && wait.verdict.culprits == one.verdict.culprits;
    });
    wait.proofs = same == before.end() ? 1 : same->proofs + 1;
  }
  if (!picture_.waits.empty()) picture_.no_waits_since = picture_.now;
}

JobTime RankBook::blamed_since(const Verdict& verdict) const {
  JobTime latest{};
  for (const int rank : blamed_by(verdict)) latest = std::max(latest, blamed_.at(rank).first);
  return latest;
}

}  // namespace ddp::launcher

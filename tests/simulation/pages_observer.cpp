#include "simulation/pages_observer.h"

#include <algorithm>
#include <utility>

namespace ddp::test {

using namespace launcher;
using namespace std::chrono_literals;

PagesObserver::PagesObserver(const PagesPlan& plan, std::size_t ranks, std::uint64_t seed)
    : plan_(plan), detector_(plan.hang, plan.others_judge), meters_(ranks), random_(seed) {}

PagesObserver::Nanoseconds PagesObserver::next(Nanoseconds now) {
  const auto most = random_() % 8 == 0 ? 50 : 250;
  return now + std::chrono::milliseconds(most);
}

void PagesObserver::refresh_far(const std::vector<PagesRank>& ranks, Nanoseconds now) {
  if (now < far_next_ || plan_.others_judge) return;
  far_next_ =
      now + Nanoseconds(static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(plan_.lag.count() + 1)));
  // The launcher of the other node describes its ranks in full about once per second, if it is asked.
  const bool in_full = random_() % 4 != 0 || now - far_full_ > 3s;
  if (in_full) far_full_ = now;
  far_.resize(ranks.size());
  for (std::size_t i = static_cast<std::size_t>(plan_.own_ranks); i < ranks.size(); ++i) {
    RankView fresh = ranks[i].view;
    fresh.seen_at = static_cast<std::uint64_t>(now.count());
    if (in_full && !fresh.has_ended) {
      meters_[i].add(ranks[i].activity, now);
      fresh.activity = meters_[i].activity();
    } else {
      fresh.process = far_[i].process;
      fresh.activity = far_[i].activity;
    }
    far_[i] = std::move(fresh);
  }
}

std::vector<HangNews> PagesObserver::sample(const std::vector<PagesRank>& ranks, Nanoseconds now) {
  refresh_far(ranks, now);
  const Nanoseconds elapsed = sampled_at_.count() == 0 ? 0ns : now - sampled_at_;
  sampled_at_ = now;
  detector_.pass(elapsed, static_cast<std::uint64_t>(now.count()));
  const auto [depth, is_measured] = detector_.next();
  const auto seen_of = [&](std::size_t i) -> const RankView& {
    return static_cast<int>(i) < plan_.own_ranks ? ranks[i].view : far_[i];
  };
  const std::size_t count = plan_.others_judge ? static_cast<std::size_t>(plan_.own_ranks) : ranks.size();
  if (depth == SampleDepth::pages) {
    bool is_new = shown_.size() != count;
    for (std::size_t i = 0; i < count && !is_new; ++i) {
      const RankView& view = seen_of(i);
      is_new = shown_[i].first != view.has_ended || shown_[i].second != view.page ||
               shown_[i].second.waiting_threads != view.page.waiting_threads;
    }
    if (!is_new) return {};
  }
  std::vector<RankView> views;
  shown_.clear();
  for (std::size_t i = 0; i < count; ++i) {
    RankView view = seen_of(i);
    shown_.emplace_back(view.has_ended, view.page);
    if (static_cast<int>(i) < plan_.own_ranks) {
      view.seen_at = static_cast<std::uint64_t>(now.count());
      if (is_measured && !view.has_ended) {
        meters_[i].add(ranks[i].activity, now);
        view.activity = meters_[i].activity();
      }
      if (depth == SampleDepth::pages) view.process.reset();
      if (depth != SampleDepth::all) view.calls.clear();
    }
    views.push_back(std::move(view));
  }
  return detector_.add(std::move(views), depth);
}

std::vector<HangNews> PagesObserver::would_say(const std::vector<PagesRank>& ranks, Nanoseconds now) const {
  PagesObserver other = *this;
  // The detector looks closely once per second. It would have done so now if it had begun a little earlier.
  const auto at = static_cast<std::uint64_t>(now.count());
  other.detector_.pass(now - sampled_at_, at);
  other.sampled_at_ = now;
  for (int i = 0; i < 8 && other.detector_.next().depth == SampleDepth::pages; ++i) other.detector_.pass(150ms, at);
  return other.sample(ranks, now);
}

}  // namespace ddp::test

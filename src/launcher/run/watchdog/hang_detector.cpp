#include "launcher/run/watchdog/hang_detector.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <utility>

#include "launcher/run/ranks/root_causes.h"
#include "launcher/run/watchdog/verdict_text.h"

namespace ddp::launcher {

using Kind = HangNews::Kind;

std::string_view name_of(Kind kind) {
  constexpr std::array<std::string_view, 7> kNames = {"stalled", "warned", "goes_on", "stopped",
                                                      "resumed", "hung",   "asked"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::vector<HangNews> StallReports::add_stops(const Picture& picture) {
  std::vector<HangNews> news;
  const auto add = [&](Kind kind, const std::set<int>& from, const std::set<int>& without) {
    HangNews item;
    item.kind = kind;
    item.verdict.kind = VerdictKind::stopped;
    std::ranges::set_difference(from, without, std::back_inserter(item.verdict.culprits));
    if (item.verdict.culprits.empty()) return;
    item.ranks = picture.ranks;
    news.push_back(std::move(item));
  };
  add(Kind::stopped, picture.stopped, stopped_);
  add(Kind::resumed, stopped_, picture.stopped);
  stopped_ = picture.stopped;
  return news;
}

// Returns news if the reported stall is over.
std::optional<HangNews> StallReports::goes_on(const Judgement& judgement, const Picture& picture) {
  const auto is_reported = [this](const Verdict& one) { return one.is_of(*reported_); };
  if (!reported_ || (judgement.verdict && is_reported(*judgement.verdict)) ||
      std::ranges::any_of(judgement.verdicts, is_reported) || !has_gone_on(*reported_, picture.ranks)) {
    return std::nullopt;
  }
  if (judgement.is_unsure && is_without_calls(reported_->kind)) return std::nullopt;
  HangNews news;
  news.kind = Kind::goes_on;
  news.verdict = *std::exchange(reported_, std::nullopt);
  news.ranks = picture.ranks;
  has_warned_ = false;
  times_over_ = 0;
  return news;
}

std::vector<HangNews> StallReports::add(const Judgement& judgement, const Picture& picture) {
  std::vector<HangNews> news;
  if (!judgement.verdicts.empty()) {
    seen_ = judgement.verdicts;
    seen_at_ = picture.now;
  }
  if (auto item = goes_on(judgement, picture)) news.push_back(std::move(*item));
  if (!judgement.stall) return news;
  const StallJudgement& stall = *judgement.stall;
  const auto add = [&](Kind kind) {
    HangNews item;
    item.kind = kind;
    item.verdict = *judgement.verdict;
    item.age = judgement.age;
    item.judgement = stall;
    item.explanation = judgement.explanation;
    item.ends_job = plan_.action == HangAction::kill && stall.ends_in;
    item.ranks = picture.ranks;
    news.push_back(std::move(item));
  };
  // A stall that is only reported is reported again after the same time, then after twice that, and so on.
  const auto until_reported_again = ((std::int64_t{1} << std::min(times_over_, 30)) - 1) * stall.limit;
  if (stall.ends_in && *stall.ends_in + until_reported_again <= std::chrono::nanoseconds(0)) {
    ++times_over_;
    add(Kind::hung);
    has_ended_job_ = news.back().ends_job;
    reported_ = judgement.verdict;
  } else if (!reported_ && !picture.is_part && judgement.age >= stall.first_word) {
    add(Kind::stalled);
    reported_ = judgement.verdict;
  } else if (reported_ && !has_warned_ && times_over_ == 0 && stall.is_warning) {
    add(Kind::warned);
    has_warned_ = true;
  }
  return news;
}

std::optional<Verdict> StallReports::stall_of(int rank, JobTime now) const {
  if (seen_.empty() || now - seen_at_ > limits::kHangRemembered) return std::nullopt;
  const auto found = std::ranges::find_if(
      seen_, [&](const Verdict& verdict) { return std::ranges::find(verdict.waiting, rank) != verdict.waiting.end(); });
  const Verdict& verdict = found == seen_.end() ? seen_.front() : *found;
  return verdict.is_partial || all_wait(verdict.kind) ? std::nullopt : std::optional(verdict);
}

std::vector<HangNews> HangDetector::add(std::vector<RankView> ranks, SampleDepth depth) {
  book_.add(std::move(ranks), depth);
  if (plan_.is_off() || reports_.has_ended_job() || depth == SampleDepth::pages) return {};
  const Picture& picture = book_.picture();
  std::vector<HangNews> news = reports_.add_stops(picture);
  if (!picture.stopped.empty()) {
    explanation_ = "no verdict: a rank is stopped, so no time passes";
    return news;
  }
  const Judgement judgement = judge(picture, plan_);
  explanation_ = (judgement.verdict ? hang_headline(*judgement.verdict) + "; " : "") + judgement.explanation;
  std::ranges::move(reports_.add(judgement, picture), std::back_inserter(news));
  return news;
}

HangNews HangDetector::describe(std::vector<RankView> ranks) const {
  RankBook book = book_;
  book.add(std::move(ranks), SampleDepth::all);
  const Judgement judgement = judge(book.picture(), plan_);
  HangNews news;
  news.kind = Kind::asked;
  if (judgement.verdict && !is_without_calls(judgement.verdict->kind)) {
    news.verdict = *judgement.verdict;
    news.age = judgement.age;
  }
  news.explanation = judgement.explanation;
  news.ranks = book.picture().ranks;
  return news;
}

}  // namespace ddp::launcher

#include "launcher/watchdog/hang_detector.h"

#include <array>
#include <iterator>
#include <string_view>
#include <utility>

#include "launcher/watchdog/verdict_text.h"

namespace ddp::launcher {

std::string_view name_of(HangNews::Kind kind) {
  constexpr std::array<std::string_view, 7> kNames = {"stalled", "warned", "goes_on", "stopped",
                                                      "resumed", "hung",   "asked"};
  return kNames[static_cast<std::size_t>(kind)];
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
  news.kind = HangNews::Kind::asked;
  if (judgement.verdict && !is_without_calls(judgement.verdict->kind)) {
    news.verdict = *judgement.verdict;
    news.age = judgement.age;
  }
  news.explanation = judgement.explanation;
  news.ranks = book.picture().ranks;
  return news;
}

}  // namespace ddp::launcher

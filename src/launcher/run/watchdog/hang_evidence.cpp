#include "launcher/run/watchdog/hang_evidence.h"

#include <utility>

#include "launcher/limits.h"
#include "launcher/run/watchdog/evidence/stuck_connections.h"
#include "launcher/run/watchdog/joined_evidence.h"

namespace ddp::launcher {
namespace {

void join(HangNews& news) {
  name_suspects_by_stacks(news);
  join_ras(news);
}

}  // namespace

using Kind = HangNews::Kind;
using wire::Subject;

HangEvidence::HangEvidence(HangEvidenceParts parts) : parts_(std::move(parts)), taker_(parts_.loop, parts_.probe) {}

// A note contains stacks. A warning contains all evidence that can be taken without disturbing the job, and the report
// that ends the job contains all evidence.
std::optional<Subject> HangEvidence::evidence_for(const HangNews& news) const {
  if (news.verdict.kind == VerdictKind::stopped || parts_.action == HangAction::warn) return std::nullopt;
  if (news.kind == Kind::stalled) return Subject::stacks;
  if (news.kind == Kind::warned) return Subject::evidence;
  return news.kind == Kind::hung ? std::optional(Subject::last_evidence) : std::nullopt;
}

void HangEvidence::consider(const HangNews& news) {
  if (news.kind == Kind::goes_on) {
    taken_ = shown_ = {};
    // A waiting note is dropped, together with the news that the stall is over. A waiting warning is dropped, because
    // it would be printed after that news.
    if (waits(Kind::stalled)) return waiting_.reset();
    if (waits(Kind::warned)) waiting_.reset();
  }
  const auto what = evidence_for(news);
  // While an answer to the user waits for evidence, a note is reported without any: the answer will contain more.
  if (!what || (waits(Kind::asked) && news.kind == Kind::stalled)) return parts_.tell(news);
  if (waiting_) {
    is_to_be_taken_again_ = *what != wanted_ && wanted_ != Subject::last_evidence;
    waiting_ = news;
    return;
  }
  if (news.kind != Kind::hung || taken_.empty()) return take(news, *what);
  // The evidence was taken when the limit passed for the first time, and nothing has made progress since.
  HangNews report = news;
  report.evidence = taken_;
  join(report);
  parts_.tell(report);
}

void HangEvidence::asked(Subject what) {
  if (waiting_ && !waits(Kind::stalled)) return;
  if (parts_.others != nullptr) parts_.others->ask_for_ranks();
  HangNews news;
  news.kind = Kind::asked;
  take(news, what);
}

void HangEvidence::end() {
  if (!waits(Kind::asked)) return;
  waiting_.reset();
  tell_what_they_are_at({});
}

std::optional<HangNews> HangEvidence::take_decided() {
  if (!waits(Kind::hung) || !waiting_->ends_job) return std::nullopt;
  HangNews decided = *std::exchange(waiting_, std::nullopt);
  decided.evidence = shown_;
  join(decided);
  return decided;
}

void HangEvidence::take(const HangNews& news, Subject what) {
  waiting_ = news;
  wanted_ = what;
  is_to_be_taken_again_ = false;
  own_.reset();
  if (parts_.others != nullptr) {
    parts_.others->ask_for_evidence(what);
    others_late_ = parts_.loop.at(std::chrono::steady_clock::now() + limits::kShownEvidenceTime, [this] {
      others_late_.reset();
      tell_if_complete();
    });
  }
  take_own(what, [this](const Evidence& evidence) {
    own_ = evidence;
    tell_if_complete();
  });
}

// Reports the news if all evidence has arrived, or if it is too late to wait for more.
void HangEvidence::tell_if_complete() {
  const bool others_are_missing = others_late_ && !parts_.others->has_evidence();
  if (!waiting_ || !own_ || others_are_missing) return;
  others_late_.reset();
  HangNews report = *std::exchange(waiting_, std::nullopt);
  if (is_to_be_taken_again_) return take(report, *evidence_for(report));
  Evidence evidence = *std::exchange(own_, std::nullopt);
  if (parts_.others != nullptr) {
    const Evidence more = parts_.others->take_evidence();
    evidence.stacks.insert(evidence.stacks.end(), more.stacks.begin(), more.stacks.end());
    evidence.sources.insert(evidence.sources.end(), more.sources.begin(), more.sources.end());
  }
  if (report.kind == Kind::asked) return tell_what_they_are_at(std::move(evidence));
  report.evidence = std::move(evidence);
  join(report);
  (report.kind == Kind::hung ? taken_ : shown_) = report.evidence;
  parts_.tell(report);
}

void HangEvidence::tell_what_they_are_at(Evidence evidence) {
  HangNews report = parts_.describe();
  report.evidence = std::move(evidence);
  parts_.tell(report);
}

void HangEvidence::take_own(Subject what, std::function<void(const Evidence& evidence)> done) {
  wanting_.push_back(std::move(done));
  if (wanting_.size() > 1) return;
  std::vector<StackTarget> targets;
  std::vector<int> ranks;
  for (int i = 0; i < parts_.workers; ++i) {
    ranks.push_back(parts_.first_rank + i);
    targets.push_back({ranks.back(), i});
  }
  const StackMeans means = what == Subject::last_evidence ? StackMeans::any : StackMeans::gentle;
  std::vector<Question> questions;
  if (what != Subject::stacks) {
    questions = questions_for(environment_, ranks);
    questions.push_back({"connections", [workers = parts_.probe.running()](net::Deadline deadline) {
                           return ask_connections(workers, deadline);
                         }});
  }
  taker_.take(targets, means, std::move(questions), [this, means](const Evidence& evidence) {
    if (means == StackMeans::any) parts_.disturbed();
    for (const auto& wants : std::exchange(wanting_, {})) wants(evidence);
  });
}

}  // namespace ddp::launcher

#include "launcher/see/report/trace_file.h"

#include <ddp/version.h>

#include <utility>

#include "base/text.h"
#include "launcher/limits.h"
#include "launcher/run/job/restore_plan.h"
#include "launcher/run/watchdog/verdict_text.h"
#include "launcher/see/report/event_text.h"
#include "launcher/see/report/report_file.h"

namespace ddp::launcher {
namespace {

std::uint64_t monotonic_now() {
  return static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

std::string option_of(const LaunchPlan& plan) {
  return "--trace=" + plan.trace_file;
}

// Describes what an event marks in the trace.
struct Mark {
  std::string_view category;
  std::string text;  // empty if the event marks nothing
};

struct MarkOf {
  int first_rank;

  std::string rank(int local_rank) const { return "rank " + std::to_string(first_rank + local_rank); }

  Mark operator()(const WorkerEnd& event) const {
    if (event.status.success()) return {};
    return {"failure", rank(event.local_rank) + ": " + event.status.describe()};
  }
  Mark operator()(const SpawnFailed& event) const { return {"failure", event.failure.message}; }
  Mark operator()(const EndedElsewhere& event) const { return {"failure", launcher::describe(event.cause)}; }
  Mark operator()(const HangNews& news) const {
    using Kind = HangNews::Kind;
    switch (news.kind) {
      case Kind::stalled:
      case Kind::warned:
      case Kind::hung:
        return {"verdict", hang_headline(news.verdict)};
      case Kind::goes_on:
        return {"verdict", "the job makes progress again"};
      case Kind::stopped:
        return {"verdict", base::ranks_text(news.verdict.culprits) + " stopped"};
      case Kind::resumed:
        return {"verdict", base::ranks_text(news.verdict.culprits) + " resumed"};
      case Kind::asked:
        break;
    }
    return {};
  }
  Mark operator()(const WorkerStarted&) const { return {}; }
  template <typename Other>
  Mark operator()(const Other& event) const {
    const auto line = event_text(Event(event), first_rank);
    return line ? Mark{"job", line->text} : Mark();
  }
};

}  // namespace

std::optional<base::Failure> TraceFile::check(const LaunchPlan& plan) {
  return check_report(plan.trace_file, option_of(plan), Document::trace);
}

TraceFile::TraceFile(const LaunchPlan& plan, const std::string& started, Warn warn, std::uint64_t most_bytes)
    : what_(option_of(plan)),
      warn_(std::move(warn)),
      most_bytes_(most_bytes),
      trace_(
          {DDP_VERSION_STRING, plan.run_id, plan.what, started, monotonic_now(), plan.recording == Recording::steps}),
      written_at_(monotonic_now()) {
  // The file may be another one than when the job was checked, because the nodes may have met long after that.
  const auto refused = check(plan);
  auto file =
      refused ? base::Result<std::unique_ptr<OpenDocument>>(*refused) : OpenDocument::open(plan.trace_file, what_);
  if (!file) {
    warn_(file.error().message + " The job continues without it.");
    return;
  }
  file_ = std::move(file).value();
  write(written_at_);
}

void TraceFile::attempt_begins(const Placement& placement) {
  placement_ = placement;
  if (file_ == nullptr) return;
  const std::uint64_t now = monotonic_now();
  trace_.begin_attempt(placement.attempt, placement.world_size, now);
  if (const std::string restored = describe(placement.restore); !restored.empty())
    trace_.mark("restart", restored, now);
}

void TraceFile::event(const Event& event) {
  if (file_ == nullptr) return;
  const std::uint64_t now = monotonic_now();
  // The samples of a report contain what the ranks have called.
  if (const auto* news = std::get_if<HangNews>(&event)) trace_.add_ranks(news->ranks, now);
  const Mark mark = std::visit(MarkOf{placement_.first_rank}, event);
  if (!mark.text.empty()) trace_.mark(mark.category, mark.text, now);
}

void TraceFile::attempt_ended(const JobOutcome& outcome, const std::string& next) {
  if (file_ == nullptr) return;
  const std::uint64_t now = monotonic_now();
  const std::string failure = describe_failure(outcome);
  const std::string attempt = "attempt " + std::to_string(placement_.attempt);
  trace_.end_attempt(failure.empty(), attempt + (failure.empty() ? " has succeeded" : " has failed: " + failure), now);
  if (!next.empty()) trace_.mark("restart", next, now);
  write(now);
}

void TraceFile::close() {
  if (file_ == nullptr) return;
  const std::string text = trace_.take();
  const auto failure = std::exchange(file_, nullptr)->close(text, trace_.ending());
  if (failure) warn_(failure->message);
}

void TraceFile::add(const Picture& picture) {
  if (file_ == nullptr) return;
  trace_.add(picture);
  write_if_due(picture.taken_at);
}

void TraceFile::add(const TrainingMoment& moment, std::uint64_t now) {
  if (file_ != nullptr) trace_.add(moment, now);
}

void TraceFile::add_records(const RankRecords& records) {
  if (file_ == nullptr) return;
  const std::uint64_t now = monotonic_now();
  trace_.add_records(records, now);
  write_if_due(now);
}

void TraceFile::write_if_due(std::uint64_t now) {
  const auto pause = static_cast<std::uint64_t>(std::chrono::nanoseconds(limits::kTraceFlush).count());
  if (trace_.size() >= limits::kTraceBuffer || now - written_at_ >= pause) write(now);
}

void TraceFile::write(std::uint64_t now) {
  if (file_ == nullptr) return;
  written_at_ = now;
  const bool is_full = file_->size() + trace_.size() >= most_bytes_;
  if (is_full) trace_.mark("trace", "the trace ends here, because it has reached its largest size", now);
  const std::string text = trace_.take();
  if (const auto failure = file_->add(text, trace_.ending())) {
    return give_up(failure->message + " The job continues without it.");
  }
  if (is_full) {
    give_up(what_ + " has reached " + base::human_bytes(most_bytes_) +
            " and ends here. Use --record=steps for fewer records.");
  }
}

void TraceFile::give_up(const std::string& why) {
  file_.reset();
  warn_(why);
}

}  // namespace ddp::launcher

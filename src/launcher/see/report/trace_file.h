// TraceFile writes the trace of a job (--trace) while the job runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "launcher/limits.h"
#include "launcher/run/job/event.h"
#include "launcher/run/job/outcome.h"
#include "launcher/run/ranks/rank_sink.h"
#include "launcher/see/report/open_document.h"
#include "launcher/see/view/chrome_trace.h"
#include "launcher/start/plan/launch_plan.h"
#include "launcher/start/plan/placement.h"

namespace ddp::launcher {

// Only the coordinator has a trace. The events are those of JobObserver. If the trace cannot be written, the job
// continues without it, after one warning.
class TraceFile : public RankSink {
 public:
  using Warn = std::function<void(const std::string& text)>;

  // Returns why the trace could not be written, as far as this can be known before the job starts.
  static std::optional<base::Failure> check(const LaunchPlan& plan);

  // `started` is the time of day, as text. Creates the file. The trace ends, with a warning, when it has this many
  // bytes.
  TraceFile(const LaunchPlan& plan, const std::string& started, Warn warn,
            std::uint64_t most_bytes = limits::kTraceBytes);

  void attempt_begins(const Placement& placement);
  void event(const Event& event);
  // `next` says what follows, and may be empty.
  void attempt_ended(const JobOutcome& outcome, const std::string& next);
  // Completes the file. Nothing is written after this.
  void close();

  void add(const Picture& picture) override;
  void add(const TrainingMoment& moment, std::uint64_t now);
  void add_records(const RankRecords& records) override;
  bool wants_processes() const override { return false; }
  bool wants_records() const override { return file_ != nullptr; }

 private:
  using Clock = std::chrono::steady_clock;

  void write_if_due(std::uint64_t now);
  void write(std::uint64_t now);
  void give_up(const std::string& why);

  const std::string what_;
  const Warn warn_;
  const std::uint64_t most_bytes_;
  ChromeTrace trace_;
  Placement placement_;
  std::unique_ptr<OpenDocument> file_;  // null if it could not be written, or is closed
  std::uint64_t written_at_ = 0;
};

}  // namespace ddp::launcher

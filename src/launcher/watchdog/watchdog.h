// Watchdog: follows what the ranks are at during an attempt, those of this node and, at the coordinator, those of all
// nodes, and says what is new about those that do not go on.
// docs/development/decisions/0023-all-ranks-are-judged-together.md
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/log/log_line.h"
#include "launcher/output/output_pump.h"
#include "launcher/plan/placement.h"
#include "launcher/process/process_host.h"
#include "launcher/watchdog/hang_detector.h"
#include "launcher/watchdog/rank_exchange.h"
#include "net/event_loop.h"

namespace ddp::launcher {

struct WatchReport {
  StragglerReport stragglers;  // for whom the others waited
  wire::Progress progress = wire::Progress::unknown;
};

// Of one attempt; belongs to the loop's thread. A seam: the simulation has its own.
class Watchdog {
 public:
  virtual ~Watchdog() = default;

  // A worker was started, with this environment ("NAME=value").
  virtual void started(int local_rank, const std::vector<std::string>& environment) = 0;
  // No more workers are going to be started.
  virtual void begin() = 0;
  // The user stopped the job (Ctrl-Z), or continued it: meanwhile nobody makes progress.
  virtual void set_paused(bool is_paused) = 0;
  // The user asks what the ranks are at.
  virtual void asked() = 0;
  // The workers are being ended: what they do is not judged any more.
  virtual void end() = 0;
  // All of them are gone. What was seen of them.
  virtual WatchReport finish() = 0;

  // The hang for which the job is about to be terminated, if that has been decided; once.
  virtual std::optional<HangNews> decided() { return std::nullopt; }

  // What its calls say of a worker that has ended: what it has not finished. `failed_too`: what it had failed in
  // counts.
  virtual std::optional<Verdict> unfinished(int local_rank, bool failed_too) = 0;
  // For whom this rank waited when the ranks were last looked at, a moment ago, or for whom others did. Nothing: for
  // none that is known here.
  virtual std::optional<Verdict> stall_of(int rank) = 0;
  // What the calls of all ranks say, those of other nodes as they were shown last: who calls something else.
  virtual std::optional<Verdict> difference() = 0;
  // After finish(): the same of ranks that ended before all of them had been seen. Nothing: no rank is to blame, or the
  // plan ends no job for it.
  virtual std::optional<HangNews> late_difference() = 0;
  // A node that is not the coordinator shows the coordinator what its ranks called.
  virtual void show_calls() = 0;
};

struct WatchdogParts {
  net::EventLoop& loop;
  ProcessHost& processes;
  const OutputPump& output;
  const LaunchPlan& plan;
  RankExchange& exchange;
  LogWriter log;
  std::function<void(const HangNews& news)> news;
};

std::unique_ptr<Watchdog> make_watchdog(const WatchdogParts& parts, const Placement& placement);

}  // namespace ddp::launcher

// Watchdog follows the ranks during an attempt, and reports news about ranks that make no progress. It sees the ranks
// of this node and, at the coordinator, those of all nodes.
// docs/development/decisions/0023-all-ranks-are-judged-together.md
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/run/output/output_pump.h"
#include "launcher/run/process/process_host.h"
#include "launcher/run/ranks/rank_exchange.h"
#include "launcher/run/ranks/rank_probe.h"
#include "launcher/run/ranks/rank_sink.h"
#include "launcher/run/watchdog/hang_detector.h"
#include "launcher/start/log/log_line.h"
#include "launcher/start/plan/placement.h"
#include "net/event_loop.h"

namespace ddp::launcher {

struct WatchReport {
  StragglerReport stragglers;  // ranks for which the others waited
  wire::Progress progress = wire::Progress::unknown;
};

// There is one object per attempt. It is used only from the event loop's thread. The simulation has its own
// implementation.
class Watchdog {
 public:
  virtual ~Watchdog() = default;

  // Called when a worker was started with this environment ("NAME=value").
  virtual void started(int local_rank, const std::vector<std::string>& environment) = 0;
  // Called when no more workers are going to be started.
  virtual void begin() = 0;
  // Called when the user stops the job (Ctrl-Z) or continues it. No rank makes progress while it is stopped.
  virtual void set_paused(bool is_paused) = 0;
  // Called when the user requests a report on the ranks.
  virtual void asked() = 0;
  // Takes the stacks of all ranks by means that the program does not notice, and calls `done` with them and with what
  // the ranks do. A report on a hang comes first: `done` may then get no stacks.
  virtual void take_stacks(std::function<void(const HangNews& news)> done) { done({}); }
  // Called when the workers are being terminated. Their activity is not judged any more.
  virtual void end() = 0;
  // Called when all workers have ended. Returns a report on the attempt.
  virtual WatchReport finish() = 0;
  // Call this after finish(). Returns whether other nodes are expected to send further records of the attempt.
  virtual bool awaits_records() const { return false; }

  // Returns the hang for which the job is about to be terminated, once. Returns std::nullopt if there is none.
  virtual std::optional<HangNews> decided() { return std::nullopt; }

  // Returns a collective that an ended worker called and did not finish, if another rank waits for it. If `failed_too`,
  // groups that failed count, and no other rank needs to wait.
  virtual std::optional<Verdict> unfinished(int local_rank, bool failed_too) = 0;
  // Returns the stall in which this rank waited at one of the latest samples, or else one in which others waited.
  // Returns std::nullopt if none is known on this node.
  virtual std::optional<Verdict> stall_of(int rank) = 0;
  // Returns the calls in which ranks differ, if a rank has failed because of that. Ranks of other nodes count as they
  // were last shown.
  virtual std::optional<Verdict> fatal_difference() = 0;
  // Call this after finish(). Returns a difference between calls of ranks that ended before all of them had been seen.
  // Returns std::nullopt if no rank is to blame, or if the plan does not end the job for it.
  virtual std::optional<HangNews> late_difference() = 0;
  // Shows the calls of this node's ranks to the coordinator. Does nothing at the coordinator.
  virtual void show_calls() = 0;
};

struct WatchdogParts {
  net::EventLoop& loop;
  ProcessHost& processes;
  RankProbe& probe;
  const OutputPump& output;
  const LaunchPlan& plan;
  RankExchange& exchange;
  LogWriter log;
  std::function<void(const HangNews& news)> news;
  RankSink* sink = nullptr;  // null if no view of the job exists
};

std::unique_ptr<Watchdog> make_watchdog(const WatchdogParts& parts, const Placement& placement);

}  // namespace ddp::launcher

#include "launcher/see/report/event_text.h"

#include "base/signals.h"
#include "base/text.h"
#include "launcher/run/job/outcome.h"

namespace ddp::launcher {
namespace {

struct EventText {
  int first_rank;

  using Line = std::optional<LogLine>;

  std::string rank(int local_rank) const { return "rank " + std::to_string(first_rank + local_rank); }
  static LogLine debug(LogSource source, const std::string& text) { return {LogLevel::debug, source, text}; }

  Line operator()(const WorkerStarted& event) const {
    return debug(LogSource::workers, rank(event.local_rank) + " started: pid " + std::to_string(event.pid));
  }
  Line operator()(const SpawnFailed& event) const {
    return debug(LogSource::workers, rank(event.local_rank) + " could not be started: " + event.failure.message);
  }
  Line operator()(const WorkerEnd& event) const {
    return debug(LogSource::workers, rank(event.local_rank) + " terminated: " + event.status.describe() +
                                         ", peak memory " + base::human_bytes(event.peak_rss_bytes));
  }
  Line operator()(const SignalArrived& event) const {
    return debug(LogSource::signals, "ddplaunch received " + base::signal_name(event.signal) +
                                         (event.reason.empty() ? "" : ": " + event.reason));
  }
  Line operator()(const SignalRefused& event) const {
    return debug(LogSource::signals, "the kernel does not let the launcher signal " + rank(event.local_rank));
  }
  Line operator()(const GuardianLost&) const {
    return debug(LogSource::launcher, "the first process of ddplaunch has exited");
  }
  Line operator()(const ConsoleClosed&) const { return debug(LogSource::output, "the console has been closed"); }
  Line operator()(const EndedElsewhere& event) const {
    return debug(LogSource::job, "the attempt ends: " + describe(event.cause));
  }
  Line operator()(const Settled&) const {
    return debug(LogSource::job, "no other rank reports more about the failure, so the attempt ends");
  }
  Line operator()(const StatesKept& event) const {
    if (event.whole.empty()) return std::nullopt;
    std::vector<std::string> states;
    for (const wire::KeptState& state : event.whole) {
      states.push_back("that of step " + std::to_string(state.step) + " by rank " + std::to_string(state.rank) + ", " +
                       base::human_bytes(state.bytes));
    }
    return debug(LogSource::workers, "states are kept in memory: " + base::join(states, "; "));
  }
  Line operator()(const ExitTimedOut&) const {
    return debug(LogSource::job, "ranks are still running after --exit-timeout, so the attempt ends");
  }
  Line operator()(const HangNews&) const { return std::nullopt; }
  Line operator()(const AlarmRang&) const { return std::nullopt; }
};

}  // namespace

std::optional<LogLine> event_text(const Event& event, int first_rank) {
  return std::visit(EventText{first_rank}, event);
}

}  // namespace ddp::launcher

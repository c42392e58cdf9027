// The machines' workers, and the JobState that supervises them.
#include <algorithm>
#include <csignal>

#include "simulation/nodes_world.h"

namespace ddp::test {

using namespace std::chrono_literals;
using namespace launcher;

namespace {

constexpr auto kGrace = 5s;
constexpr int kVictims = 3;

base::ExitStatus status_of(char how) {
  switch (how) {
    case 's':
      return base::ExitStatus::exited(0);
    case 't':
      return base::ExitStatus::killed(SIGTERM);
    case 'k':
      return base::ExitStatus::killed(SIGKILL);
    default:
      return base::ExitStatus::exited(3);
  }
}

}  // namespace

void NodesWorld::start_workers(std::size_t id, const wire::HubBegins& place) {
  Machine& machine = *machines_[id];
  rules_.workers_start(id, place);
  const int count = machine.hello.workers;
  machine.attempt = place.attempt;
  machine.name = place.name.empty() ? machine.hello.host : place.name;
  machine.has_reported = false;
  machine.is_alive.assign(static_cast<std::size_t>(count), true);
  machine.workers.emplace(JobOptions{count, place.first_rank, kGrace, /*has_exit_timeout=*/true}, now_);
  while (run_times_.size() <= static_cast<std::size_t>(place.attempt)) {
    run_times_.push_back(1s + milliseconds_below(longest_run_ms_));
  }
  const Duration run_time = run_times_[static_cast<std::size_t>(place.attempt)];
  for (int i = 0; i < count; ++i) {
    workers_hear(id, WorkerStarted{i, 1000 + i});
    at(run_time + milliseconds_below(200), {.kind = Kind::worker_ends,
                                            .machine = static_cast<std::uint32_t>(id),
                                            .local_rank = static_cast<std::uint32_t>(i),
                                            .attempt = place.attempt,
                                            .how = 's'});
  }
}

void NodesWorld::worker_ends(const Event& event) {
  Machine& machine = *machines_[event.machine];
  if (machine.is_dead || machine.attempt != event.attempt || event.local_rank >= machine.is_alive.size()) return;
  if (!machine.is_alive[event.local_rank]) return;
  // Where a rank is missing, the others wait for it until somebody ends them.
  if (event.how == 's' && rules_.is_broken(event.attempt)) return;
  machine.is_alive[event.local_rank] = false;
  if (event.how != 's') rules_.breaks(event.attempt);
  if (event.how == 'f') lost_by_peers(event.machine, event.attempt);
  if (std::ranges::find(machine.is_alive, true) == machine.is_alive.end()) {
    rules_.workers_end(event.machine, event.how == 's' ? NodesRules::End::success : NodesRules::End::failure);
  }
  std::optional<ErrorRecord> error;
  if (event.how == 'v') error = ErrorRecord{"lost a peer", true};
  workers_hear(event.machine, WorkerEnded{static_cast<int>(event.local_rank), status_of(event.how), error});
}

void NodesWorld::workers_hear(std::size_t id, const launcher::Event& event) {
  Machine& machine = *machines_[id];
  if (machine.is_frozen) return machine.is_unheard.push_back(event);
  if (!machine.workers || machine.workers->finished()) return;
  JobState& workers = *machine.workers;
  for (const Action& action : workers.step(event, now_)) {
    if (const auto* signal = std::get_if<SendSignal>(&action)) workers_are_signalled(id, *signal);
    if (!std::holds_alternative<ReportCause>(action)) continue;
    machine.has_reported = true;
    agent_acts(id, machine.agent.failed(cause_of(workers.outcome())));
  }
  if (const auto when = workers.alarm()) {
    at(std::max<Duration>(*when - now_, 0s), {.kind = Kind::workers_alarm, .machine = static_cast<std::uint32_t>(id)});
  }
  if (!workers.finished()) return;
  agent_acts(id, machine.agent.workers_ended());
  // Who sees a failure may have had enough.
  const bool is_annoying = workers.outcome().status.shell_code() != 0 && one_in(50);
  if (is_annoying)
    at(milliseconds_below(500), {.kind = Kind::is_asked_to_end, .machine = static_cast<std::uint32_t>(id)});
}

// Some do not listen.
void NodesWorld::workers_are_signalled(std::size_t id, const SendSignal& action) {
  if (action.signal != SIGTERM && action.signal != SIGKILL) return;
  if (action.signal == SIGTERM && one_in(20)) return;
  const bool is_term = action.signal == SIGTERM;
  at(milliseconds_below(is_term ? 2'000 : 20), {.kind = Kind::worker_ends,
                                                .machine = static_cast<std::uint32_t>(id),
                                                .local_rank = static_cast<std::uint32_t>(action.local_rank),
                                                .attempt = machines_[id]->attempt,
                                                .how = is_term ? 't' : 'k'});
}

void NodesWorld::lose_workers(std::size_t id) {
  Machine& machine = *machines_[id];
  if (std::ranges::find(machine.is_alive, true) == machine.is_alive.end()) return;
  machine.is_alive.assign(machine.is_alive.size(), false);
  lost_by_peers(id, machine.attempt);
  rules_.workers_end(id, NodesRules::End::with_machine);
}

void NodesWorld::lost_by_peers(std::size_t id, int attempt) {
  for (int i = 0; i < kVictims; ++i) {
    const auto peer = static_cast<std::size_t>(below(static_cast<int>(machines_.size())));
    if (peer == id || machines_[peer]->attempt != attempt) continue;
    at(milliseconds_below(700),
       {.kind = Kind::worker_ends, .machine = static_cast<std::uint32_t>(peer), .attempt = attempt, .how = 'v'});
  }
}

void NodesWorld::is_asked_to_end(std::size_t id) {
  Machine& machine = *machines_[id];
  if (machine.is_frozen || machine.is_dead || machine.is_done) return;
  if (machine.workers && !machine.workers->finished()) return workers_hear(id, SignalArrived{SIGINT});
  if (id != 0) rules_.is_asked_to_leave(id);
  agent_acts(id, machine.agent.failed({.text = "ended by SIGINT", .exit_code = 130, .signal = SIGINT}));
}

}  // namespace ddp::test

// Implements the nodes' launchers and their workers, as a JobDriver uses them.
#include <algorithm>
#include <csignal>
#include <functional>
#include <utility>

#include "simulation/nodes_world.h"
#include "support/no_workers.h"

namespace ddp::test {

using namespace std::chrono_literals;
using namespace launcher;

namespace {

constexpr auto kGrace = 5s;
constexpr int kSecondaryFailures = 3;
constexpr int kLateInOneOf = 100;

base::ExitStatus status_of(char how) {
  switch (how) {
    case 's':
      return base::ExitStatus::exited(0);
    case 'i':
      return base::ExitStatus::killed(SIGINT);
    case 't':
      return base::ExitStatus::killed(SIGTERM);
    case 'k':
      return base::ExitStatus::killed(SIGKILL);
    default:
      return base::ExitStatus::exited(3);
  }
}

HangNews hang_of(int rank) {
  HangNews news;
  news.kind = HangNews::Kind::hung;
  news.verdict.kind = VerdictKind::stopped;
  news.verdict.culprits = {rank};
  news.ends_job = true;
  return news;
}

}  // namespace

// A driver needs only one alarm at a time.
class NodesWorld::Clock : public net::Timers {
 public:
  Clock(NodesWorld& world, std::size_t id) : world_(world), id_(id) {}

  TimePoint now() const override { return world_.now_; }

  std::unique_ptr<net::Watch> at(TimePoint when, std::function<void()> due) override {
    auto& alarm = world_.machines_[id_]->alarm;
    alarm = Alarm{when, std::move(due), ++world_.number_};
    const Duration left = std::max<Duration>(when - world_.now_, 0s);
    world_.at(left, {.kind = Kind::alarm, .machine = static_cast<std::uint32_t>(id_)});
    return std::make_unique<Set>(alarm);
  }

 private:
  struct Set : net::Watch {
    explicit Set(std::optional<Alarm>& alarm) : alarm_(alarm), number_(alarm->number) {}
    ~Set() override {
      if (alarm_ && alarm_->number == number_) alarm_.reset();
    }
    std::optional<Alarm>& alarm_;
    const std::uint64_t number_;
  };
  NodesWorld& world_;
  const std::size_t id_;
};

class NodesWorld::Workers : public NoWorkers {
 public:
  Workers(NodesWorld& world, std::size_t id) : world_(world), id_(id) {}

  std::optional<base::Failure> begin(const Placement&, const std::string&) override {
    world_.workers_begin(id_);
    return std::nullopt;
  }
  base::Result<StartedWorker, StartFailure> start(int local_rank) override {
    const bool is_started = world_.worker_starts(id_, local_rank);
    if (!is_started) return StartFailure{126, "cannot start"};
    return StartedWorker{1000 + local_rank, {}};
  }
  void on_exit(ProcessHost::ExitCallback callback) override { world_.machines_[id_]->on_exit = std::move(callback); }
  bool signal(int local_rank, int signal, SignalTarget) override {
    world_.worker_is_signalled(id_, local_rank, signal);
    return true;
  }
  std::optional<ErrorRecord> error_of(int local_rank) override {
    if (!world_.machines_[id_]->is_secondary[static_cast<std::size_t>(local_rank)]) return std::nullopt;
    // Some records name the rank that was lost. The coordinator then waits longer for a better cause.
    return ErrorRecord{
        .message = "lost a peer", .is_secondary = true, .peer = id_ % 2 == 0 ? std::optional(0) : std::nullopt};
  }
  void request_stop() override {}
  std::optional<ErrorRecord> error_at_end(int local_rank, const base::ExitStatus&) override {
    return error_of(local_rank);
  }
  std::string crash_place_of(int, const base::ExitStatus&) override { return ""; }
  // Simulates a slow console. The launcher must notice a request to end that arrives meanwhile.
  Remains end(const std::function<bool()>& interrupted, bool) override {
    world_.workers_have_ended(id_);
    if (!world_.is_console_slow_ || !world_.one_in(20)) return {};
    world_.is_asked_to_end(id_, "icg"[world_.below(3)]);
    if (!interrupted()) world_.rules_.is_not_heard(id_);
    return {};
  }

 private:
  NodesWorld& world_;
  const std::size_t id_;
};

// Passes messages between a launcher and the coordinator. NodesWorld transports them.
class NodesWorld::Link : public JobLink {
 public:
  Link(NodesWorld& world, std::size_t id) : world_(world), id_(id) { world_.launcher_opens(id_); }
  ~Link() override { world_.launcher_leaves(id_); }

  bool is_coordinator() const override { return id_ == 0; }
  void show(wire::Subject, const std::string&) override {}
  void ask(wire::Subject) override {}
  void failed(const wire::Cause& cause) override { world_.agent_acts(id_, agent().failed(cause)); }
  void rank_left(int rank) override { world_.agent_acts(id_, agent().rank_left(rank)); }
  void workers_ended(wire::NodeEnded end) override { world_.agent_acts(id_, agent().workers_ended(std::move(end))); }
  bool is_through() const override { return id_ != 0 || world_.is_through_; }

 private:
  Agent& agent() { return world_.machines_[id_]->agent; }
  NodesWorld& world_;
  const std::size_t id_;
};

// Sees nothing. NodesWorld makes its reports.
class NodesWorld::ScriptedWatchdog : public Watchdog {
 public:
  explicit ScriptedWatchdog(NodesWorld& world) : world_(world) {}

  void started(int, const std::vector<std::string>&) override {}
  void begin() override {}
  void set_paused(bool) override {}
  void asked() override {}
  void end() override {}
  WatchReport finish() override { return {{}, static_cast<wire::Progress>(world_.below(3))}; }
  std::optional<Verdict> unfinished(int, bool) override { return std::nullopt; }
  std::optional<Verdict> stall_of(int) override { return std::nullopt; }
  std::optional<Verdict> fatal_difference() override { return std::nullopt; }
  std::optional<HangNews> late_difference() override { return std::nullopt; }
  void show_calls() override {}

 private:
  NodesWorld& world_;
};

NodesWorld::Machine::Machine(Duration node_timeout, TimePoint now)
    : agent("coordinator", std::chrono::duration_cast<std::chrono::milliseconds>(node_timeout), now) {}

NodesWorld::Machine::~Machine() = default;

NodesWorld::~NodesWorld() {
  for (const auto& machine : machines_) {
    machine->is_dead = true;
    machine->driver.reset();
  }
}

// --- The following functions simulate the launchers.

void NodesWorld::start_launcher(std::size_t id) {
  Machine& machine = *machines_[id];
  LaunchPlan& plan = machine.plan;
  plan.host_name = machine.hello.host;
  plan.workers = machine.hello.workers;
  plan.nodes.min = options_.nodes.min;
  plan.nodes.max = options_.nodes.max;
  plan.grace = kGrace;
  plan.exit_timeout = options_.exit_timeout;
  plan.ending_signals = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
  machine.clock = std::make_unique<Clock>(*this, id);
  machine.workers = std::make_unique<Workers>(*this, id);
  const auto open_link = [this, id](JobLink::Callbacks callbacks) {
    machines_[id]->callbacks = std::move(callbacks);
    return base::Result<std::unique_ptr<JobLink>>(std::make_unique<Link>(*this, id));
  };
  const auto open_watchdog = [this](RankExchange&, const Placement&, const std::function<void(const HangNews&)>&) {
    return std::make_unique<ScriptedWatchdog>(*this);
  };
  JobObserver observer;
  observer.searches_for_nodes = [](bool) {};
  observer.attempt_begins = [](const Placement&) {};
  observer.event = [](const launcher::Event&) {};
  observer.attempt_ended = [](const JobOutcome&, const std::string&, bool) {};
  observer.ended_between_attempts = [](const JobOutcome&) {};
  observer.log = [](const LogLine&) {};
  machine.driver = std::make_unique<JobDriver>(JobDriverParts{*machine.clock, plan, *machine.workers, open_link,
                                                              open_watchdog, observer, [this, id] { wake(id); }});
}

void NodesWorld::wake(std::size_t id) {
  if (!std::exchange(machines_[id]->is_awake, true)) awake_.push_back(id);
}

// The drivers work in turn. Other work on the node may delay them.
void NodesWorld::let_drivers_work() {
  while (!awake_.empty()) {
    const std::size_t id = awake_.front();
    awake_.pop_front();
    Machine& machine = *machines_[id];
    machine.is_awake = false;
    JobDriver& driver = *machine.driver;
    if (machine.is_frozen || machine.is_dead || driver.is_over()) continue;
    if (machine.callbacks.report && one_in(kLateInOneOf)) {
      at(milliseconds_below(50), {.kind = Kind::driver_works, .machine = static_cast<std::uint32_t>(id)});
      const bool is_asked = is_console_slow_ && one_in(20);
      if (is_asked)
        at(0s, {.kind = Kind::is_asked_to_end, .machine = static_cast<std::uint32_t>(id), .how = "icg"[below(3)]});
      continue;
    }
    driver.work();
    if (driver.is_over()) {
      const auto& end = driver.result();
      rules_.launcher_ends(id, end ? end.value().status.shell_code() : -1);
    } else if (driver.has_work()) {
      wake(id);
    }
  }
}

void NodesWorld::is_asked_to_end(std::size_t id, char what) {
  Machine& machine = *machines_[id];
  if (machine.is_frozen || machine.is_dead || machine.is_done) return;
  if (what == 'h') {
    if (machine.has_workers) machine.driver->deliver(hang_of(machine.place.first_rank));
    return;
  }
  if (!machine.has_workers || what == 'g') rules_.is_asked_to_leave(id);
  rules_.is_asked_to_end(id, /*may_leave_at_once=*/what == 'g' || machine.agent.has_left());
  if (what == 'c') return machine.driver->deliver(ConsoleClosed{});
  if (what == 'g') return machine.driver->deliver(GuardianLost{});
  machine.driver->deliver(SignalArrived{SIGINT});
}

void NodesWorld::launcher_opens(std::size_t id) {
  if (id == 0) return;
  Machine& machine = *machines_[id];
  agent_acts(id, machine.agent.connected(machine.hello, now_));
  at(0s, {.kind = Kind::node_tick, .machine = static_cast<std::uint32_t>(id)});
}

void NodesWorld::launcher_leaves(std::size_t id) {
  Machine& machine = *machines_[id];
  if (machine.is_dead) return;
  // The launcher ends without a message if it has not waited for the coordinator's.
  if (!machine.agent.has_left() || (id == 0 && !is_through_)) rules_.leaves_at_once(id);
  if (id == 0 && !is_through_) return coordinator_ends(/*is_seen=*/true);
  if (id == 0) coordinator_closes_all();
  if (std::exchange(machine.is_connected, false)) push(id, machine.to_coordinator, std::nullopt);
  is_done_with(id);
  // Some launchers are started again.
  if (id != 0 && !rules_.left_with_success(id) && one_in(4)) {
    at(milliseconds_below(5'000), {.kind = Kind::comes, .local_rank = static_cast<std::uint32_t>(id) + 1});
  }
}

// --- The following functions simulate the workers.

void NodesWorld::workers_begin(std::size_t id) {
  Machine& machine = *machines_[id];
  rules_.workers_start(id, machine.place);
  machine.attempt = machine.place.attempt;
  machine.has_workers = true;
  machine.is_alive.assign(static_cast<std::size_t>(machine.hello.workers), false);
  machine.is_secondary.assign(machine.is_alive.size(), false);
  while (run_times_.size() <= static_cast<std::size_t>(machine.attempt)) {
    run_times_.push_back(1s + milliseconds_below(longest_run_ms_));
  }
}

bool NodesWorld::worker_starts(std::size_t id, int local_rank) {
  Machine& machine = *machines_[id];
  if (one_in(5'000)) {
    rules_.breaks(machine.attempt);
    expects_success_ = false;
    return false;
  }
  machine.is_alive[static_cast<std::size_t>(local_rank)] = true;
  at(run_times_[static_cast<std::size_t>(machine.attempt)] + milliseconds_below(200),
     {.kind = Kind::worker_ends,
      .machine = static_cast<std::uint32_t>(id),
      .local_rank = static_cast<std::uint32_t>(local_rank),
      .attempt = machine.attempt,
      .how = 's'});
  return true;
}

void NodesWorld::worker_ends(const Event& event) {
  Machine& machine = *machines_[event.machine];
  if (machine.is_dead || machine.attempt != event.attempt || event.local_rank >= machine.is_alive.size()) return;
  if (!machine.is_alive[event.local_rank]) return;
  // If a rank is missing, the others wait for it until they are terminated.
  if (event.how == 's' && rules_.is_broken(event.attempt)) return;
  machine.is_alive[event.local_rank] = false;
  machine.is_secondary[event.local_rank] = event.how == 'v';
  if (event.how != 's') rules_.breaks(event.attempt);
  if (event.how == 'f') lost_by_peers(event.machine, event.attempt);
  const Exit exit{static_cast<int>(event.local_rank), status_of(event.how)};
  if (machine.is_frozen) return machine.is_unheard.push_back(exit);
  machine.on_exit(exit.local_rank, {exit.status, 0});
}

// All workers have ended, or none was started.
void NodesWorld::workers_have_ended(std::size_t id) {
  Machine& machine = *machines_[id];
  machine.has_workers = false;
  if (std::ranges::find(machine.is_alive, true) != machine.is_alive.end()) rules_.has_left_workers(id);
  const bool is_well = !rules_.is_broken(machine.attempt);
  rules_.workers_end(id, is_well ? NodesRules::End::success : NodesRules::End::failure);
  // A user who sees a failure may ask for the end.
  if (is_well || !one_in(50)) return;
  at(milliseconds_below(500), {.kind = Kind::is_asked_to_end, .machine = static_cast<std::uint32_t>(id), .how = 'i'});
}

// Some workers ignore the signal.
void NodesWorld::worker_is_signalled(std::size_t id, int local_rank, int signal) {
  if (signal != SIGINT && signal != SIGTERM && signal != SIGKILL) return;
  if ((signal == SIGTERM && one_in(20)) || (signal == SIGINT && one_in(5))) return;
  at(milliseconds_below(signal == SIGKILL ? 20 : 2'000), {.kind = Kind::worker_ends,
                                                          .machine = static_cast<std::uint32_t>(id),
                                                          .local_rank = static_cast<std::uint32_t>(local_rank),
                                                          .attempt = machines_[id]->attempt,
                                                          .how = signal == SIGINT    ? 'i'
                                                                 : signal == SIGTERM ? 't'
                                                                                     : 'k'});
}

void NodesWorld::lose_workers(std::size_t id) {
  Machine& machine = *machines_[id];
  if (!std::exchange(machine.has_workers, false)) return;
  machine.is_alive.assign(machine.is_alive.size(), false);
  lost_by_peers(id, machine.attempt);
  rules_.workers_end(id, NodesRules::End::with_machine);
}

void NodesWorld::lost_by_peers(std::size_t id, int attempt) {
  for (int i = 0; i < kSecondaryFailures; ++i) {
    const auto peer = static_cast<std::size_t>(below(static_cast<int>(machines_.size())));
    if (peer == id || machines_[peer]->attempt != attempt) continue;
    at(milliseconds_below(700),
       {.kind = Kind::worker_ends, .machine = static_cast<std::uint32_t>(peer), .attempt = attempt, .how = 'v'});
  }
}

}  // namespace ddp::test

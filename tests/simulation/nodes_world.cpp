#include "simulation/nodes_world.h"

#include <algorithm>
#include <csignal>
#include <utility>

namespace ddp::test {

using namespace std::chrono_literals;
using namespace launcher;

namespace {

constexpr auto kGrace = 5s;
// Adds a moment for SIGKILL.
constexpr auto kEnding = kGrace + 200ms;
constexpr auto kLongestLife = 3h;
constexpr int kManyNodes = 100;

}  // namespace

CoordinatorOptions NodesWorld::draw_options(int nodes) {
  CoordinatorOptions options;
  options.nodes.max = std::max(1, nodes + below(3) - 1);
  options.nodes.min = one_in(3) ? options.nodes.max : 1 + below(options.nodes.max);
  if (one_in(3)) options.nodes.rank = 0;
  options.max_restarts = below(4);
  options.nodes.join_timeout = 60s;
  options.nodes.last_call = std::chrono::seconds(below(3) * 5);
  options.nodes.node_timeout = 10s;
  return options;
}

NodesWorld::NodesWorld(std::uint64_t seed, int nodes)
    : random_(seed),
      options_(draw_options(nodes)),
      rules_(options_, kEnding, now_),
      longest_run_ms_(nodes > kManyNodes ? 5'000 : 60'000) {
  constexpr int kSpreads[] = {100, 5'000, 70'000};
  const int spread = kSpreads[below(nodes > kManyNodes ? 2 : 3)];
  machines_.push_back(std::make_unique<Machine>(0s, now_));
  machines_[0]->hello = new_hello();
  rules_.appears(0, machines_[0]->hello);
  rules_.coordinator_takes_in(0);
  coordinator_ = std::make_unique<Coordinator>(options_, machines_[0]->hello, now_);
  start_launcher(0);
  for (int i = 1; i < nodes; ++i) at(milliseconds_below(spread), {.kind = Kind::comes});
  const int faults = one_in(4) ? 0 : below(nodes > kManyNodes ? 8 : 5);
  for (int i = 0; i < faults; ++i) at(milliseconds_below(spread + longest_run_ms_ * 3 / 2), {.kind = Kind::befalls});
  is_console_slow_ = one_in(4);
  expects_success_ = faults == 0 && !is_console_slow_ && nodes >= options_.nodes.min && spread < 50'000;
}

// If the job has node ranks, the next free one is used. Surplus nodes get the rank of another node.
wire::NodeHello NodesWorld::new_hello() {
  wire::NodeHello hello;
  hello.host = "n" + std::to_string(machines_.size());
  hello.workers = 1 + below(3);
  hello.nodes = "2";
  hello.same["program train"] = "aa11";
  if (options_.nodes.rank) hello.node_rank = next_rank_ < options_.nodes.max ? next_rank_++ : below(options_.nodes.max);
  return hello;
}

void NodesWorld::at(Duration delay, Event event) {
  event.when = now_ + delay;
  event.number = ++number_;
  events_.push(event);
}

NodesWorld::Duration NodesWorld::delay() {
  if (one_in(200)) return milliseconds_below(3'000);  // the bytes are lost and sent again
  return std::chrono::microseconds(50 + below(one_in(10) ? 400'000 : 2'000));
}

NodesWorld::Duration NodesWorld::trouble_time() {
  constexpr int kTimes[] = {1'000, 4'000, 12'000, 40'000};
  return one_in(3) ? kLongestLife : milliseconds_below(kTimes[below(4)]);
}

std::string NodesWorld::live() {
  let_drivers_work();
  coordinator_acts(coordinator_->begin(now_));
  let_drivers_work();
  const TimePoint last = now_ + kLongestLife;
  while (!events_.empty() && rules_.violation().empty() && now_ < last && !is_over()) {
    const Event event = events_.top();
    events_.pop();
    now_ = event.when;
    ++counts_.events;
    carry_out(event);
    let_drivers_work();
  }
  counts_.attempts = run_times_.size();
  counts_.machines = machines_.size();
  if (rules_.violation().empty()) rules_.check_end(is_coordinator_gone_, expects_success_);
  if (rules_.violation().empty()) return "";
  const auto age = std::chrono::duration_cast<std::chrono::milliseconds>(now_.time_since_epoch() - 1h);
  return rules_.violation() + ", after " + std::to_string(age.count()) + " ms";
}

bool NodesWorld::is_over() const {
  return is_coordinator_gone_ && left_ == machines_.size();
}

void NodesWorld::carry_out(const Event& event) {
  const std::size_t id = event.machine;
  switch (event.kind) {
    case Kind::coordinator_tick:
      if (coordinator_hears() && event.when == next_coordinator_tick_) coordinator_acts(coordinator_->tick(now_));
      return;
    case Kind::node_tick: {
      Machine& machine = *machines_[id];
      // If two clocks tick for the node, the later one stops.
      if (machine.is_frozen || machine.is_dead || machine.agent.has_left() || now_ < machine.agent.alarm()) return;
      if (!machine.is_connected && id != 0) return;
      agent_acts(id, machine.agent.tick(now_));
      return at(machine.agent.alarm() - now_, {.kind = Kind::node_tick, .machine = event.machine});
    }
    case Kind::alarm: {
      Machine& machine = *machines_[id];
      if (machine.is_frozen || machine.is_dead || !machine.alarm || machine.alarm->when > now_) return;
      return std::exchange(machine.alarm, std::nullopt)->due();
    }
    case Kind::driver_works:
      return wake(id);
    case Kind::to_coordinator:
    case Kind::to_node:
      return deliver(id, event.kind);
    case Kind::worker_ends:
      return worker_ends(event);
    case Kind::comes:
      return comes(event);
    case Kind::befalls:
      return befalls();
    case Kind::is_asked_to_end:
      return is_asked_to_end(id, event.how);
    case Kind::heals:
      machines_[id]->is_cut = false;
      move(id, machines_[id]->to_coordinator);
      return move(id, machines_[id]->from_coordinator);
    case Kind::goes_on:
      return goes_on(id);
  }
}

void NodesWorld::comes(const Event& event) {
  if (is_coordinator_gone_) return;
  const std::size_t id = machines_.size();
  machines_.push_back(std::make_unique<Machine>(options_.nodes.node_timeout, now_));
  machines_[id]->hello = event.local_rank > 0 ? machines_[event.local_rank - 1]->hello : new_hello();
  Machine& machine = *machines_[id];
  rules_.appears(id, machine.hello);
  machine.connection = machine_of_.size();
  machine_of_.push_back(id);
  machine.is_connected = machine.is_coordinator_connected = true;
  start_launcher(id);
}

// Disturbs one node, or a rack of nodes.
void NodesWorld::befalls() {
  ++counts_.faults;
  const auto count = static_cast<int>(machines_.size());
  const int how = below(12);
  const int struck = one_in(5) ? 1 + below(std::max(1, count / (1 << below(6)))) : 1;
  const int first = below(count);
  for (int i = 0; i < struck; ++i) strike(static_cast<std::size_t>((first + i) % count), how);
}

void NodesWorld::strike(std::size_t id, int how) {
  Machine& machine = *machines_[id];
  if (machine.is_dead || machine.is_done) return;
  const bool is_coordinators = id == 0;
  switch (how) {
    case 0:
    case 1:
      if (!is_coordinators) return dies(id, how == 0);
      if (one_in(3)) return coordinator_ends(how == 0);
      break;
    case 2:
    case 3:
      return freezes(id);
    case 4:
    case 5:
      if (!is_coordinators) return is_cut(id);
      break;
    case 6:
      if (!is_coordinators) return loses_connection(id);
      break;
    case 7:
      return is_asked_to_end(id, "iichhg"[below(6)]);
    case 8:  // a node with the same node rank or one more node joins
      return at(0s, {.kind = Kind::comes, .local_rank = static_cast<std::uint32_t>(id) + 1});
    default:
      break;
  }
  const auto rank = static_cast<std::uint32_t>(below(machine.hello.workers));
  at(0s, {.kind = Kind::worker_ends,
          .machine = static_cast<std::uint32_t>(id),
          .local_rank = rank,
          .attempt = machine.attempt,
          .how = one_in(3) ? 'v' : 'f'});
}

// The node's launcher is killed and its guardian kills the workers, or the whole node disappears without a message.
void NodesWorld::dies(std::size_t id, bool is_seen) {
  Machine& machine = *machines_[id];
  machine.is_dead = true;
  rules_.is_gone(id);
  lose_workers(id);
  if (is_seen && machine.is_connected) {
    if (one_in(2)) machine.to_coordinator.parcels.clear();
    push(id, machine.to_coordinator, std::nullopt);
  }
  machine.is_connected = false;
  is_done_with(id);
  if (one_in(2))
    at(milliseconds_below(20'000), {.kind = Kind::comes, .local_rank = static_cast<std::uint32_t>(id) + 1});
}

// Freezes the node's launcher. Its workers continue.
void NodesWorld::freezes(std::size_t id) {
  Machine& machine = *machines_[id];
  if (machine.is_frozen) return;
  const Duration time = id == 0 ? std::min<Duration>(trouble_time(), 40s) : trouble_time();
  machine.is_frozen = true;
  rules_.freezes(id);
  id == 0 ? rules_.coordinator_has_trouble(time) : rules_.has_trouble(id, time);
  if (time < kLongestLife) return at(time, {.kind = Kind::goes_on, .machine = static_cast<std::uint32_t>(id)});
  rules_.is_gone(id);
  is_done_with(id);
}

void NodesWorld::goes_on(std::size_t id) {
  Machine& machine = *machines_[id];
  machine.is_frozen = false;
  rules_.goes_on(id);
  if (machine.is_dead) return;
  const bool fires_timers_first = one_in(2);
  const auto fire_timers = [&] {
    at(0s, {.kind = Kind::node_tick, .machine = static_cast<std::uint32_t>(id)});
    at(0s, {.kind = Kind::alarm, .machine = static_cast<std::uint32_t>(id)});
    if (id == 0) at(0s, {.kind = Kind::coordinator_tick});
    if (id == 0) next_coordinator_tick_ = now_;
  };
  if (fires_timers_first) fire_timers();
  wake(id);
  for (const Exit& exit : std::exchange(machine.is_unheard, {})) machine.on_exit(exit.local_rank, {exit.status, 0});
  move(id, machine.from_coordinator);
  if (id == 0) {
    for (std::size_t other = 1; other < machines_.size(); ++other) move(other, machines_[other]->to_coordinator);
  }
  if (!fires_timers_first) fire_timers();
}

void NodesWorld::is_cut(std::size_t id) {
  Machine& machine = *machines_[id];
  if (machine.is_cut) return;
  machine.is_cut = true;
  const Duration time = trouble_time();
  rules_.has_trouble(id, time);
  if (time > 5s) lost_by_peers(id, machine.attempt);
  if (time < kLongestLife) at(time, {.kind = Kind::heals, .machine = static_cast<std::uint32_t>(id)});
}

void NodesWorld::loses_connection(std::size_t id) {
  Machine& machine = *machines_[id];
  rules_.has_trouble(id, kLongestLife);
  machine.to_coordinator.parcels.clear();
  machine.from_coordinator.parcels.clear();
  if (machine.is_coordinator_connected) push(id, machine.to_coordinator, std::nullopt);
  if (machine.is_connected) push(id, machine.from_coordinator, std::nullopt);
}

void NodesWorld::coordinator_ends(bool is_seen) {
  rules_.coordinator_has_trouble(kLongestLife);
  rules_.is_gone(0);
  machines_[0]->is_dead = true;
  is_coordinator_gone_ = true;
  lose_workers(0);
  is_done_with(0);
  for (std::size_t id = 1; is_seen && id < machines_.size(); ++id) {
    if (machines_[id]->is_coordinator_connected) push(id, machines_[id]->from_coordinator, std::nullopt);
  }
}

void NodesWorld::is_done_with(std::size_t id) {
  if (!std::exchange(machines_[id]->is_done, true)) ++left_;
}

}  // namespace ddp::test

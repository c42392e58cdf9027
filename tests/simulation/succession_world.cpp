#include "simulation/succession_world.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "launcher/limits.h"

namespace ddp::test {

using namespace std::chrono_literals;
using namespace launcher;

namespace {

constexpr auto kTimeout = 10s;
constexpr auto kPatience = 3 * kTimeout / 2;
constexpr auto kLife = 300s;
constexpr auto kForEver = std::chrono::hours(10);

wire::NodeHello hello_of(const std::string& name) {
  wire::NodeHello hello;
  hello.host = name;
  hello.nodes = "1:9";
  hello.port = 1;
  return hello;
}

}  // namespace

SuccessionWorld::SuccessionWorld(std::uint64_t seed) : random_(seed) {
  const int nodes = one_in(4) ? 2 : 2 + below(6);
  if (one_in(2)) options_.nodes.witness = "the directory";
  options_.job_key = "k";
  options_.nodes.min = 1;
  options_.nodes.max = one_in(2) ? nodes : nodes + 3;
  options_.nodes.last_call = 1s;
  options_.nodes.join_timeout = 60s;
  options_.nodes.node_timeout = kTimeout;
  options_.max_restarts = 1000;
  for (int i = 0; i < nodes; ++i) {
    auto box = std::make_unique<Box>();
    box->name = "box" + std::to_string(i);
    box->rate = 1 + (below(51) - 25) * 1e-4;
    boxes_.push_back(std::move(box));
  }
  boxes_[0]->agent.emplace("first", 0ms, local(*boxes_[0]));
  boxes_[0]->coordinator.emplace(options_, hello_of("box0"), local(*boxes_[0]));
  coordinator_acts(0, boxes_[0]->coordinator->begin(local(*boxes_[0])));
  for (std::size_t id = 1; id < boxes_.size(); ++id) {
    boxes_[id]->agent.emplace("first", kTimeout, local(*boxes_[id]));
    connects(id, 0);
  }
  const int count = one_in(3) ? 1 : 1 + below(6);
  for (int i = 0; i < count; ++i) faults_.push_back({10s + milliseconds_below(count == 1 ? 5'000 : 50'000), below(14)});
  std::ranges::sort(faults_, {}, &Fault::when);
  if (count == 1) {
    fault_at_ = faults_[0].when;
    const int kind = faults_[0].kind;
    const bool has_witness = !options_.nodes.witness.empty();
    if (kind <= 1 || kind == 13) expected_ = Expected::goes_on;
    may_reset_ = nodes >= 3 || has_witness;  // otherwise one of two nodes proves nothing then
    if (kind >= 2 && kind <= 5 && may_reset_) expected_ = Expected::goes_on;
    if (kind >= 7 && kind <= 9 && nodes == 2 && has_witness) expected_ = Expected::goes_on;
    if (kind == 6 || kind == 12) expected_ = Expected::nothing_happens;
  }
}

SuccessionWorld::~SuccessionWorld() = default;

SuccessionWorld::TimePoint SuccessionWorld::local(const Box& box) const {
  return TimePoint(1h) + std::chrono::duration_cast<Time>(box.rate * now_);
}

SuccessionWorld::Time SuccessionWorld::from_local(const Box& box, TimePoint when) const {
  if (when >= TimePoint(1h) + kForEver) return kForEver;
  const Time since = std::max<Time>(when - TimePoint(1h), 0s);
  return std::max(now_, std::chrono::duration_cast<Time>(since / box.rate) + 1us);
}

bool SuccessionWorld::is_cut(std::size_t from, std::size_t to) const {
  return std::ranges::any_of(cuts_,
                             [&](const Cut& cut) { return cut.from == from && cut.to == to && cut.until > now_; });
}

void SuccessionWorld::trace(const std::string& text) const {
  static const bool is_on = std::getenv("DDP_TEST_TRACE") != nullptr;  // NOLINT(concurrency-mt-unsafe)
  if (is_on) std::printf("%8.3f %s\n", std::chrono::duration<double>(now_).count(), text.c_str());
}

void SuccessionWorld::violate(const std::string& what) {
  if (violation_.empty())
    violation_ =
        what + ", after " + std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(now_).count()) + " ms";
}

std::optional<std::size_t> SuccessionWorld::leader() const {
  for (std::size_t id = 0; id < boxes_.size(); ++id) {
    const Box& box = *boxes_[id];
    if (acts(id) && box.coordinator && box.coordinator->leads(local(box))) return id;
  }
  return std::nullopt;
}

std::string SuccessionWorld::live() {
  int rounds = 0;  // at one time
  while (now_ < kLife && violation_.empty()) {
    const Time before = now_;
    now_ = std::max(now_, next());
    if (now_ >= kLife) break;
    rounds = before == now_ ? rounds + 1 : 0;
    if (rounds > 10'000) violate("something is due for ever");
    while (!faults_.empty() && faults_.front().when <= now_) {
      const int kind = faults_.front().kind;
      faults_.erase(faults_.begin());
      befalls(kind);
    }
    move_messages();
    move_claims();
    fire_timers();
    check_leaders();
  }
  now_ = kLife;
  if (violation_.empty()) check_end();
  counts_.attempts = begun_.size();
  return violation_;
}

SuccessionWorld::Time SuccessionWorld::next() const {
  Time next = kLife;
  if (!faults_.empty()) next = std::min(next, faults_.front().when);
  for (const Cut& cut : cuts_) {
    if (cut.until > now_) next = std::min(next, cut.until);
  }
  for (const Claim& claim : claims_) next = std::min(next, claim.due);
  for (const auto& [id, one] : connections_) {
    if (!one.to_server.empty() && acts(one.server) && !is_cut(one.client, one.server))
      next = std::min(next, one.to_server.front().due);
    if (!one.to_client.empty() && acts(one.client) && !is_cut(one.server, one.client))
      next = std::min(next, one.to_client.front().due);
  }
  for (std::size_t id = 0; id < boxes_.size(); ++id) {
    const Box& box = *boxes_[id];
    if (!acts(id)) continue;
    for (const Time when : {box.workers_end, box.workers_fail}) {
      if (when >= 0s) next = std::min(next, when);
    }
    if (box.search) next = std::min(next, box.search->due);
    if (box.coordinator) next = std::min(next, from_local(box, box.coordinator->alarm()));
    if (box.link) next = std::min(next, from_local(box, box.agent->alarm()));
  }
  return next;
}

// --- Faults

// The kinds are: 0, 1: the leader is killed, 2: its host is, 3: it freezes, 4: it is cut off, 5: it is cut off in one
// direction, 6: a short trouble of the leader, 12: a box does not reach the witness, 13: a connection is reset. Others
// strike any box, or two groups, or let a new node come.
void SuccessionWorld::befalls(int kind) {
  const auto led = leader();
  std::size_t id = led.value_or(0);
  if (kind > 6) id = static_cast<std::size_t>(below(static_cast<int>(boxes_.size())));
  const Time time = kind == 6                        ? milliseconds_below(4'000)
                    : expected_ == Expected::goes_on ? Time(kForEver)
                    : one_in(3)                      ? Time(kForEver)
                                                     : milliseconds_below(60'000);
  const auto freeze = [&] {
    ++counts_.freezes;
    boxes_[id]->is_frozen = true;
    if (time < kForEver) faults_.push_back({now_ + time, 100 + static_cast<int>(id)});
    std::ranges::sort(faults_, {}, &Fault::when);
  };
  const auto cut = [&](std::size_t from, std::size_t to) { cuts_.push_back({from, to, now_ + time}); };
  if (kind >= 100) {
    boxes_[static_cast<std::size_t>(kind - 100)]->is_frozen = false;
    return;
  }
  trace("fault " + std::to_string(kind) + " of box" + std::to_string(id));
  if (!boxes_[id]->is_alive) return;
  switch (kind) {
    case 0:
    case 1:
      return dies(id, false);
    case 7:
      return dies(id, boxes_.size() == 2 && one_in(2));
    case 2:
      return dies(id, true);
    case 3:
    case 8:
      return freeze();
    case 5:
    case 4:
    case 9: {
      ++counts_.cuts;
      const int how = kind == 5 ? below(2) : kind == 9 ? below(4) : 2;
      for (std::size_t other = 0; other < boxes_.size(); ++other) {
        if (how != 1) cut(id, other);
        if (how != 0) cut(other, id);
      }
      return;
    }
    case 6:
      if (one_in(2)) return freeze();
      for (std::size_t other = 0; other < boxes_.size(); ++other) {
        cut(id, other);
        cut(other, id);
      }
      return;
    case 10: {
      ++counts_.cuts;
      std::vector<bool> side;
      for (std::size_t i = 0; i < boxes_.size(); ++i) side.push_back(one_in(2));
      for (std::size_t a = 0; a < boxes_.size(); ++a) {
        for (std::size_t b = 0; b < boxes_.size(); ++b) {
          if (side[a] != side[b]) cut(a, b);
        }
      }
      return;
    }
    case 13:
      return resets();
    case 12:
      boxes_[id]->lacks_witness_until = now_ + time;
      boxes_[id]->witness_hangs = one_in(2);
      return;
    default:
      for (int i = 1 + below(3); i > 0 && led && boxes_.size() < 12; --i) comes(*led);
  }
}

// Both launchers live, and see that their connection broke.
void SuccessionWorld::resets() {
  std::vector<Connection*> open;
  for (auto& [id, one] : connections_) {
    if (one.client_reads && one.server_reads && !one.client_is_gone && !one.server_is_gone) open.push_back(&one);
  }
  if (open.empty()) return;
  Connection& one = *open[static_cast<std::size_t>(below(static_cast<int>(open.size())))];
  for (auto* pipe : {&one.to_client, &one.to_server}) {
    pipe->clear();
    push(*pipe, std::nullopt, true);
  }
}

// The electorate changes around the beginning of an attempt.
void SuccessionWorld::strikes_soon(Time when) {
  if (expected_ != Expected::anything || begun_.size() > 20 || !one_in(6)) return;
  faults_.push_back({now_ + when, one_in(2) ? below(14) : 10});
  std::ranges::sort(faults_, {}, &Fault::when);
}

void SuccessionWorld::comes(std::size_t leader) {
  auto box = std::make_unique<Box>();
  box->name = "box" + std::to_string(boxes_.size());
  box->rate = 1 + (below(51) - 25) * 1e-4;
  box->agent.emplace("first", kTimeout, local(*box));
  boxes_.push_back(std::move(box));
  connects(boxes_.size() - 1, leader);
}

// The launcher is killed, and its guardian kills its workers, or the host is gone without a word.
void SuccessionWorld::dies(std::size_t id, bool with_host) {
  ++counts_.kills;
  boxes_[id]->is_reachable = !with_host;
  ends(id, true);
}

void SuccessionWorld::ends(std::size_t id, bool is_killed) {
  Box& box = *boxes_[id];
  box.is_alive = false;
  box.runs = -1;
  ++counts_.ends;
  for (auto& [connection, one] : connections_) {
    const bool is_server = one.server == id;
    if (!is_server && one.client != id) continue;
    (is_server ? one.server_is_gone : one.client_is_gone) = true;
    if (!box.is_reachable) continue;
    auto& out = is_server ? one.to_client : one.to_server;
    auto& in = is_server ? one.to_server : one.to_client;
    if (is_killed && may_reset_ && one_in(4)) {
      // Data that it has not read reset the connection.
      out.clear();
      push(out, std::nullopt, true);
    } else {
      // What the kernel had not accepted yet is lost. It delivers the rest, even if the other side does not read now.
      for (int lost = is_killed && one_in(4) ? below(4) : 0; lost > 0 && !out.empty() && out.back().due > now_; --lost)
        out.pop_back();
      push(out, std::nullopt);
    }
    in.clear();
  }
}

// --- Messages

void SuccessionWorld::push(std::deque<Parcel>& pipe, std::optional<wire::ControlMessage> message, bool is_reset) {
  Time due = now_ + std::chrono::microseconds(50 + below(one_in(20) ? 400'000 : 2'000));
  if (!pipe.empty()) due = std::max(due, pipe.back().due);
  pipe.push_back({due, std::move(message), is_reset});
}

void SuccessionWorld::move_messages() {
  std::vector<NodeId> ids;
  for (const auto& [id, one] : connections_) ids.push_back(id);
  for (const NodeId id : ids) {
    Connection& one = connections_.at(id);
    while (!one.to_server.empty() && one.to_server.front().due <= now_ && acts(one.server) &&
           !is_cut(one.client, one.server)) {
      const Parcel parcel = std::move(one.to_server.front());
      one.to_server.pop_front();
      Box& box = *boxes_[one.server];
      if (!box.coordinator || !one.server_reads) continue;
      if (!parcel.message) {
        one.server_reads = false;
        coordinator_acts(one.server, box.coordinator->lost(id, "lost", !parcel.is_reset, local(box)));
      } else {
        coordinator_acts(one.server, box.coordinator->heard(id, boxes_[one.client]->name, *parcel.message, local(box)));
      }
    }
    while (!one.to_client.empty() && one.to_client.front().due <= now_ && acts(one.client) &&
           !is_cut(one.server, one.client)) {
      const Parcel parcel = std::move(one.to_client.front());
      one.to_client.pop_front();
      Box& box = *boxes_[one.client];
      if (box.link != id || !one.client_reads) continue;
      if (!parcel.message) {
        one.client_reads = false;
        loses(one.client, !parcel.is_reset);
      } else {
        agent_acts(one.client, box.agent->heard(*parcel.message, local(box)));
      }
    }
  }
}

void SuccessionWorld::move_claims() {
  std::vector<Claim> moving;
  for (Claim& claim : std::exchange(claims_, {})) {
    Box& box = *boxes_[claim.box];
    if (claim.due > now_) {
      claims_.push_back(std::move(claim));
      continue;
    }
    const bool hangs = now_ < box.lacks_witness_until && box.witness_hangs;
    if (!box.is_alive && claim.answer) continue;
    // The request of a box that freezes or dies may be on its way.
    if (hangs || (box.is_frozen && (claim.answer || one_in(4)))) {
      claim.due = now_ + 100ms;
      claims_.push_back(std::move(claim));
    } else {
      moving.push_back(std::move(claim));
    }
  }
  for (Claim& claim : moving) {
    Box& box = *boxes_[claim.box];
    if (claim.answer) {
      if (box.coordinator)
        coordinator_acts(claim.box, box.coordinator->claimed(claim.attempt, *claim.answer, local(box)));
      continue;
    }
    claim.answer = decide(claim);
    claim.due = now_ + milliseconds_below(one_in(5) ? 400 : 10);
    claims_.push_back(std::move(claim));
  }
}

ClaimAnswer SuccessionWorld::decide(const Claim& claim) {
  using Kind = ClaimAnswer::Kind;
  if (now_ < boxes_[claim.box]->lacks_witness_until) return {Kind::failed, "it is not reached"};
  const std::size_t first = witness_.try_emplace(claim.attempt, claim.box).first->second;
  trace(boxes_[claim.box]->name + " claims attempt " + std::to_string(claim.attempt) + ", which " +
        boxes_[first]->name + " has");
  ++(first == claim.box ? counts_.granted : counts_.taken);
  if (expected_ == Expected::anything && one_in(10)) return {Kind::failed, "the answer is lost"};
  return {first == claim.box ? Kind::granted : Kind::taken, boxes_[first]->name};
}

void SuccessionWorld::connects(std::size_t id, std::size_t leader) {
  Box& box = *boxes_[id];
  box.link = next_connection_++;
  box.follows = leader;
  connections_[*box.link] = {.client = id, .server = leader};
  agent_acts(id, box.agent->connected(hello_of(box.name), local(box)));
}

// See CoordinatorClient::lose().
void SuccessionWorld::loses(std::size_t id, bool in_order) {
  Box& box = *boxes_[id];
  box.link.reset();
  if (box.agent->may_outlive_coordinator()) {
    agent_acts(id, box.agent->coordinator_is_gone("it has closed the connection"));
    give_up(id, true);
    box.search->was_reset = !in_order;
    return;
  }
  agent_acts(id, box.agent->coordinator_lost("lost"));
}

void SuccessionWorld::give_up(std::size_t id, bool needs_proof) {
  Box& box = *boxes_[id];
  const Succession& succession = box.agent->succession();
  box.search = Search{.needs_proof = needs_proof,
                      .lost = box.follows,
                      .successors = succession.before_this(),
                      .may_lead = succession.may_lead(),
                      .until = now_ + limits::kDeathProof + 3 * Time(kTimeout),
                      .step_until = now_ + (needs_proof ? Time(limits::kDeathProof) : Time(kPatience)),
                      .due = now_};
  if (!needs_proof) box.agent->coordinator_is_silent();
}

// See CoordinatorClient::Search.
void SuccessionWorld::search_on(std::size_t id) {
  Box& box = *boxes_[id];
  Search& search = *box.search;
  const auto is_apart = [&](std::size_t other) {
    return is_cut(id, other) || is_cut(other, id) || !boxes_[other]->is_reachable;
  };
  if (search.needs_proof && !search.is_proven) {
    if (!search.was_reset && !is_apart(search.lost) && !boxes_[search.lost]->is_alive) {
      search.is_proven = true;
      box.agent->coordinator_died();
      search.step_until = now_ + kPatience;
    } else if (search.was_reset || now_ >= search.step_until) {
      if (box.agent->may_leave_silent_coordinator(local(box))) return give_up(id, false);
      search.due = now_ + Time(limits::kNodeConnectPause);
    } else {
      search.due = now_ + 50ms;
    }
    return;
  }
  while (search.next < search.successors.size()) {
    const wire::Successor one = search.successors[search.next];
    const auto other = static_cast<std::size_t>(std::stoi(one.address.substr(3)));
    const Box& there = *boxes_[other];
    if (!is_apart(other) && there.is_alive && !there.is_frozen && there.coordinator) {
      box.search.reset();
      box.agent->follows(one);
      return connects(id, other);
    }
    const bool is_refused = !is_apart(other) && !there.is_alive;
    if (!is_refused && now_ < search.step_until) {
      search.due = now_ + 100ms;
      return;
    }
    ++search.next;
    search.step_until = now_ + kPatience;
  }
  if (search.may_lead) {
    trace(box.name + " stands for election");
    ++counts_.takeovers;
    box.search.reset();
    const Takeover takeover = box.agent->takeover();
    box.agent->take_over();
    CoordinatorOptions options = options_;
    box.coordinator.emplace(options, hello_of(box.name), local(box), takeover);
    coordinator_acts(id, box.coordinator->begin(local(box)));
    return agent_acts(id, box.agent->leads());
  }
  if (now_ >= search.until) {
    box.search.reset();
    return agent_acts(id, box.agent->coordinator_lost("no other node leads"));
  }
  search.next = 0;
  search.due = now_ + Time(limits::kNodeConnectPause);
}

// --- The launchers

void SuccessionWorld::fire_timers() {
  for (std::size_t id = 0; id < boxes_.size(); ++id) {
    Box& box = *boxes_[id];
    if (!acts(id)) continue;
    if (box.workers_fail >= 0s && box.workers_fail <= now_) {
      box.workers_fail = -1s;
      if (box.runs >= 0)
        agent_acts(id, box.agent->failed({.text = "rank 1: exit code 3",
                                          .exit_code = 3,
                                          .may_restart = true,
                                          .code = wire::CauseCode::program}));
    }
    if (box.workers_end >= 0s && box.workers_end <= now_) {
      box.workers_end = -1s;
      box.runs = -1;
      agent_acts(id, box.agent->workers_ended({.progress = wire::Progress::some}));
    }
    if (!box.is_alive) continue;
    if (box.search && box.search->due <= now_) search_on(id);
    if (box.coordinator && box.coordinator->alarm() <= local(box))
      coordinator_acts(id, box.coordinator->tick(local(box)));
    if (!box.is_alive || !box.link || box.agent->alarm() > local(box)) continue;
    agent_acts(id, box.agent->tick(local(box)));
    if (box.is_alive && box.link && box.agent->may_leave_silent_coordinator(local(box))) {
      connections_.at(*box.link).client_reads = false;
      box.link.reset();
      give_up(id, false);
    }
  }
}

void SuccessionWorld::agent_acts(std::size_t id, std::vector<AgentAction> actions) {
  Box& box = *boxes_[id];
  for (const AgentAction& action : actions) {
    if (const auto* start = std::get_if<StartWorkers>(&action)) {
      if (box.runs >= 0) violate(box.name + " has workers of two attempts");
      if (start->place.attempt <= box.last_attempt)
        violate(box.name + " begins attempt " + std::to_string(start->place.attempt) + " after " +
                std::to_string(box.last_attempt));
      box.runs = box.last_attempt = start->place.attempt;
      box.workers_end = -1s;
      box.workers_fail = expected_ == Expected::anything && one_in(10) ? now_ + milliseconds_below(20'000) : Time(-1s);
    }
    if (std::holds_alternative<EndWorkers>(action) && box.runs >= 0 && box.workers_end < 0s) {
      box.workers_end = now_ + milliseconds_below(one_in(5) ? 15'000 : 500);
    }
    if (const auto* send = std::get_if<SendToCoordinator>(&action)) {
      if (box.coordinator) {
        coordinator_acts(id, box.coordinator->heard(kOwnNode, "", send->message, local(box)));
      } else if (box.link) {
        push(connections_.at(*box.link).to_server, send->message);
      }
    }
    if (const auto* leave = std::get_if<LeaveJob>(&action)) trace(box.name + " leaves: " + leave->cause.text);
    if (std::holds_alternative<LeaveJob>(action) && !box.coordinator && box.is_alive) ends(id, false);
  }
}

void SuccessionWorld::coordinator_acts(std::size_t id, std::vector<CoordinatorAction> actions) {
  Box& box = *boxes_[id];
  for (CoordinatorAction& action : actions) box.waiting.push_back(std::move(action));
  if (std::exchange(box.is_acting, true)) return;
  while (!box.waiting.empty()) {
    const CoordinatorAction action = std::move(box.waiting.front());
    box.waiting.pop_front();
    carry_out(id, action);
  }
  box.is_acting = false;
}

void SuccessionWorld::carry_out(std::size_t id, const CoordinatorAction& action) {
  Box& box = *boxes_[id];
  if (!box.is_alive) return;
  if (const auto* tell = std::get_if<LogLine>(&action)) trace(box.name + ": " + tell->text);
  if (const auto* send = std::get_if<SendToNode>(&action)) {
    if (!std::holds_alternative<wire::NodeHeartbeat>(send->message))
      trace(box.name + " to " + std::to_string(send->to) + ": " + std::string(wire::name_of(send->message)));
    if (std::holds_alternative<wire::CoordinatorBegins>(send->message) && send->to == kOwnNode) {
      begun_.push_back(now_);
      strikes_soon(std::chrono::microseconds(below(20'000)));
    }
    const bool restarts = std::holds_alternative<wire::CoordinatorRestarts>(send->message);
    if (restarts && send->to == kOwnNode) strikes_soon(milliseconds_below(3'000));
    if (send->to == kOwnNode) return agent_acts(id, box.agent->heard(send->message, local(box)));
    Connection& one = connections_.at(send->to);
    if (!one.client_is_gone) push(one.to_client, send->message);
  }
  if (const auto* close = std::get_if<CloseNode>(&action)) {
    Connection& one = connections_.at(close->who);
    one.server_reads = false;
    push(one.to_client, std::nullopt);
  }
  if (const auto* claim = std::get_if<ClaimElectorate>(&action))
    claims_.push_back({now_ + milliseconds_below(one_in(5) ? 400 : 10), id, claim->attempt, std::nullopt});
  if (std::holds_alternative<CoordinatorIsThrough>(action)) ends(id, false);
}

// --- Rules

void SuccessionWorld::check_leaders() {
  std::string leaders;
  int count = 0;
  for (std::size_t id = 0; id < boxes_.size(); ++id) {
    const Box& box = *boxes_[id];
    if (!acts(id) || !box.coordinator || !box.coordinator->leads(local(box))) continue;
    ++count;
    leaders += " " + box.name;
  }
  if (count > 1) violate("two coordinators lead:" + leaders);
}

void SuccessionWorld::check_end() {
  const bool has_later = std::ranges::any_of(begun_, [&](Time when) { return when > fault_at_; });
  if (expected_ == Expected::goes_on && !has_later) violate("the job does not go on");
  if (expected_ == Expected::nothing_happens && begun_.size() != 1)
    violate("a short trouble has ended an attempt: " + std::to_string(begun_.size()));
  for (std::size_t id = 0; id < boxes_.size(); ++id) {
    if (acts(id) && boxes_[id]->search) violate(boxes_[id]->name + " looks for a coordinator for ever");
  }
}

}  // namespace ddp::test

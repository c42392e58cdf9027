#include "launcher/run/job/coordinator_client.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "base/text.h"
#include "launcher/limits.h"
#include "launcher/run/job/coordinator_server.h"
#include "launcher/run/job/node_hello.h"
#include "net/address.h"
#include "net/socket.h"

namespace ddp::launcher {

using Clock = std::chrono::steady_clock;

// Holds the result of a search for the coordinator. Neither `visit` nor `is_own` is set if the search has given up.
struct CoordinatorClient::Found {
  std::optional<store::StoreVisit> visit;
  bool is_own = false;
  bool is_refused = false;                   // a store answered and does not let this node in
  bool is_dead = false;                      // the coordinator that was lost
  std::optional<wire::Successor> successor;  // to whom `visit` leads
};

// Searches for the coordinator until it is found. This runs on a separate thread, because name resolution and nodes may
// be slow or hang.
struct CoordinatorClient::Search {
  std::string host;
  std::uint16_t port = 0;
  std::shared_ptr<const store::Authenticator> token;
  Clock::time_point until;
  bool may_be_own = false;
  std::atomic<bool> is_given_up = false;
  std::mutex mutex;
  std::string last_try;  // guarded by `mutex`

  Found run() {
    Found found;
    while (!is_given_up && Clock::now() < until) {
      found.is_own = may_be_own && net::is_own_host(host).value_or(false);
      if (found.is_own) break;
      auto visit = store::StoreVisit::open(host, port, token, until);
      if (visit) found.visit.emplace(std::move(visit).value());
      if (visit) break;
      {
        const std::lock_guard lock(mutex);
        last_try = visit.error().message;
      }
      // Another attempt helps only if no store has answered.
      found.is_refused = visit.error().kind == store::VisitFailure::Kind::refused;
      if (found.is_refused) break;
      std::this_thread::sleep_for(limits::kNodeConnectPause);
    }
    return found;
  }

  // --- What follows looks for the successor of a lost coordinator.
  net::Endpoint lost;
  std::vector<wire::Successor> successors;  // rather than this node
  bool may_lead = false;
  bool needs_proof = false;               // that the coordinator is dead
  std::chrono::milliseconds patience{0};  // with one of them

  std::string job_key;
  std::string question;  // for a launcher that listens where the coordinator was

  // The process has closed the connection. If nothing listens at its address either, or another launcher does, it has
  // ended.
  bool is_dead() const {
    const auto last = Clock::now() + limits::kDeathProof;
    do {
      const auto connected = net::connect_tcp(lost.address.text(), lost.port, last);
      if (!connected && connected.error().kind == net::SocketFailure::Kind::refused) return true;
      if (connected && is_another()) return true;
      std::this_thread::sleep_for(limits::kDeathPoll);
    } while (!is_given_up && Clock::now() < last);
    return false;
  }

  bool is_another() const {
    const auto last = Clock::now() + limits::kDeathProof;
    auto visit = store::StoreVisit::open(lost.address.text(), lost.port, token, last);
    if (!visit || !net::send_all(visit.value().fd(), question, last)) return false;
    const auto answer = visit.value().control_message(last);
    const auto message = answer ? wire::decode_control(answer.value()) : std::nullopt;
    const auto* refuses = message ? std::get_if<wire::CoordinatorRefuses>(&*message) : nullptr;
    const bool has_other_key = refuses != nullptr && !refuses->job_key.empty() && refuses->job_key != job_key;
    return has_other_key || (message && std::holds_alternative<wire::CoordinatorIsElsewhere>(*message));
  }

  // A node that lives and does not lead yet lets this one wait.
  std::optional<store::StoreVisit> wait_for(const wire::Successor& one) const {
    const auto last = Clock::now() + patience;
    while (!is_given_up && Clock::now() < last) {
      auto visit = store::StoreVisit::open(one.address, one.port, token, last);
      if (visit) return std::move(visit).value();
      const auto connected = net::connect_tcp(one.address, one.port, last);
      if (!connected && connected.error().kind == net::SocketFailure::Kind::refused) break;
      std::this_thread::sleep_for(limits::kDeathPoll);
    }
    return std::nullopt;
  }

  Found run_after_loss() {
    Found found;
    found.is_dead = needs_proof && is_dead();
    while ((found.is_dead || !needs_proof) && !is_given_up && Clock::now() < until) {
      for (const wire::Successor& one : successors) {
        found.visit = wait_for(one);
        if (!found.visit) continue;
        found.successor = one;
        return found;
      }
      if (may_lead) break;
      std::this_thread::sleep_for(limits::kNodeConnectPause);
    }
    return found;
  }
};

CoordinatorClient::CoordinatorClient(net::EventLoop& loop, const LaunchPlan& plan, Callbacks callbacks,
                                     wire::CoordinatorIsElsewhere meets_at, bool may_be_first,
                                     std::unique_ptr<net::Watch> signpost)
    : AgentDriver(loop, plan, std::move(callbacks), new_agent(plan, plan.nodes.node_timeout), std::move(signpost)),
      may_be_first_(may_be_first),
      meets_at_(std::move(meets_at)),
      until_(Clock::now() + plan.nodes.join_timeout),
      word_due_(Clock::now() + limits::kNodeFirstWord) {
  search();
}

CoordinatorClient::~CoordinatorClient() {
  search_->is_given_up = true;
}

void CoordinatorClient::send(const wire::ControlMessage& message) {
  if (!link_) return;
  log_message("to", message);
  link_->send(message);
}

void CoordinatorClient::log_message(const std::string& way, const wire::ControlMessage& message) const {
  log(LogLevel::trace, way + " the first node: " + std::string(wire::name_of(message)));
}

void CoordinatorClient::set_addresses(Placement& place) const {
  place.master_addr = coordinator_.address.text();
  place.master_port = coordinator_.port;
  place.interface = net::interface_of(net::own_endpoint(link_->fd()).value_or(net::Endpoint{}).address);
}

// Sends whole lines if the bytes contain the end of a line.
std::optional<std::size_t> CoordinatorClient::print(wire::Subject what, std::string_view bytes) {
  if (!link_ || !agent_.runs()) return std::nullopt;
  if (link_->unsent() > 0) link_->flush();
  if (link_->unsent() >= limits::kPrintedUnsent) return 0;
  bytes = bytes.substr(0, limits::kPrintedAtOnce);
  if (const std::size_t end = bytes.rfind('\n'); end != std::string_view::npos) bytes = bytes.substr(0, end + 1);
  act(agent_.show(what, std::string(bytes)));
  return bytes.size();
}

void CoordinatorClient::search() {
  log(LogLevel::debug, "looking for the first node at " + where());
  search_ = std::make_shared<Search>();
  search_->host = meets_at_.address;
  search_->port = meets_at_.port;
  search_->token = plan_.store.token;
  search_->until = until_;
  search_->may_be_own = may_be_first_;
  search_thread_ = std::make_unique<base::SideThread<Found>>([search = search_] { return search->run(); });
  found_ = loop_.watch_readable(search_thread_->ready(), [this] { begin(); });
  timer_ = loop_.at(word_due_, [this] { tell_of_search(); });
}

void CoordinatorClient::tell_of_search() {
  const std::lock_guard lock(search_->mutex);
  const std::string& why = search_->last_try.empty() ? last_loss_ : search_->last_try;
  const auto left = std::max(until_ - Clock::now(), Clock::duration(0));
  log(LogLevel::note, "looking for the first node at " + where() + " for another " + base::human_duration(left) +
                          (why.empty() ? "" : " (" + why + ")"));
  word_due_ = Clock::now() + limits::kNodeNextWord;
  timer_ = loop_.at(word_due_, [this] { tell_of_search(); });
}

void CoordinatorClient::begin() {
  timer_.reset();
  auto found = search_thread_->result();
  if (found && found->is_own) return callbacks_.report(FirstNode{});
  if (found && found->visit) return connect(std::move(*found->visit));
  const std::string last_try = found ? search_->last_try : "cannot start a thread to look for it";
  if (found && found->is_refused) return act(agent_.coordinator_refuses(last_try));
  const bool is_late = Clock::now() >= until_;
  act(agent_.coordinator_lost(
      (is_late ? "not found within " + base::human_duration(plan_.nodes.join_timeout) + ": " : "") + last_try));
}

void CoordinatorClient::connect(store::StoreVisit visit) {
  visit.outlast(plan_.nodes.node_timeout);
  coordinator_ = net::peer_endpoint(visit.fd()).value_or(net::Endpoint{});
  link_ = std::make_unique<ControlLink>(
      loop_, std::move(visit),
      ControlLink::Callbacks{[this](const wire::ControlMessage& message) { hear(message); },
                             [this](const std::string& why, LinkEnd end) { lose(std::string(why), end); },
                             [this] { callbacks_.report(RoomToPrint{}); }});
  log(LogLevel::debug, "connected to the first node at " + coordinator_.text());
  if (!hello_) hello_ = make_node_hello(plan_);  // may take long if the program is large
  set_clocks(*hello_);
  if (may_be_led_by_any_node(plan_) && !listener_) listen();
  act(agent_.connected(*hello_, Clock::now()));
  tick();
}

void CoordinatorClient::hear(const wire::ControlMessage& message) {
  has_heard_ = true;
  log_message("from", message);
  const auto* elsewhere = std::get_if<wire::CoordinatorIsElsewhere>(&message);
  if (elsewhere == nullptr) return act(agent_.heard(message, Clock::now()));
  if (!agent_.may_search_again()) return;
  meets_at_ = *elsewhere;
  until_ = Clock::now() + plan_.nodes.join_timeout;
  timer_ = loop_.at(Clock::now(), [this] {
    link_.reset();
    search();
  });
}

// Listens where the other nodes reach this one. The port of the endpoint may be that of another job's first node.
void CoordinatorClient::listen() {
  const auto own = net::own_endpoint(link_->fd());
  auto listener = net::listen_tcp(own ? own->address.text() : "", 0, limits::kSuccessionBacklog);
  if (!listener) {
    return log(LogLevel::debug, "this node cannot lead the job: " + listener.error().message);
  }
  listener_ = std::move(listener).value();
  hello_->port = net::own_endpoint(listener_.get()).value_or(net::Endpoint{}).port;
}

std::unique_ptr<JobLink> CoordinatorClient::changed() {
  if (!agent_.may_outlive_coordinator()) return nullptr;  // it was asked to end meanwhile
  auto coordinator =
      std::make_unique<CoordinatorServer>(loop_, plan_, callbacks_, agent_, *hello_, std::move(signpost_));
  const auto why = coordinator->serve_at(std::move(listener_));
  if (!why) return coordinator;
  act(agent_.coordinator_lost(last_loss_ + ", and this node cannot lead the job: " + *why));
  return nullptr;
}

void CoordinatorClient::tick() {
  if (agent_.may_search_again() && agent_.is_silent(Clock::now())) {
    return lose("it has sent nothing for " + base::human_duration(plan_.nodes.node_timeout), LinkEnd::broken);
  }
  act(agent_.tick(Clock::now()));
  if (agent_.may_leave_silent_coordinator(Clock::now())) {
    last_loss_ = "it has sent nothing for " + base::human_duration(plan_.nodes.node_timeout);
    given_up_.push_back(link_->give_up());
    link_.reset();
    return find_successor(/*needs_proof=*/false);
  }
  if (!agent_.has_left()) timer_ = loop_.at(agent_.alarm(), [this] { tick(); });
}

// The coordinator closes new connections without a message while the store is emptied for an attempt, and after the end
// of its job. The store of another ddplaunch job closes all of them.
void CoordinatorClient::lose(const std::string& why, LinkEnd end) {
  link_.reset();
  if (end != LinkEnd::misused && agent_.may_outlive_coordinator()) {
    last_loss_ = why;
    act(agent_.coordinator_is_gone(why));
    return end == LinkEnd::closed ? find_successor(/*needs_proof=*/true) : wait_for_silence();
  }
  last_loss_ =
      why + (has_heard_ ? "" : " without a reply; it may belong to another job or require a token (--auth-token-file)");
  if (!agent_.may_search_again() || Clock::now() + limits::kNodeHeartbeat > until_)
    return act(agent_.coordinator_lost(last_loss_));
  if (std::exchange(has_heard_, false)) {
    log(LogLevel::warning, "the first node (" + where() + ") is lost: " + why + "; looking for it again");
  }
  timer_ = loop_.at(Clock::now() + limits::kNodeConnectPause, [this] { search(); });
}

void CoordinatorClient::find_successor(bool needs_proof) {
  timer_.reset();
  const Succession& succession = agent_.succession();
  search_ = std::make_shared<Search>();
  search_->token = plan_.store.token;
  search_->lost = coordinator_;
  search_->needs_proof = needs_proof;
  search_->job_key = succession.job_key();
  wire::NodeHello question = *hello_;
  question.vote.job_key = succession.job_key();
  search_->question = store::StoreVisit::control_request(wire::encode(question));
  search_->successors = succession.before_this();
  search_->may_lead = succession.may_lead() && listener_;
  search_->patience = 3 * plan_.nodes.node_timeout / 2;  // it may wait for the silence of the coordinator
  search_->until = Clock::now() + limits::kDeathProof + 3 * plan_.nodes.node_timeout;
  search_thread_ = std::make_unique<base::SideThread<Found>>([search = search_] { return search->run_after_loss(); });
  found_ = loop_.watch_readable(search_thread_->ready(), [this] { begin_again(); });
}

// It is not certain that the launcher has ended. If it has not, it learns meanwhile that it leads the job no longer.
void CoordinatorClient::wait_for_silence() {
  if (!agent_.may_outlive_coordinator()) return;
  if (agent_.may_leave_silent_coordinator(Clock::now())) return find_successor(/*needs_proof=*/false);
  timer_ = loop_.at(Clock::now() + limits::kNodeConnectPause, [this] { wait_for_silence(); });
}

void CoordinatorClient::begin_again() {
  auto found = search_thread_->result();
  if (!agent_.may_outlive_coordinator()) return;
  const std::string lost = last_loss_;
  if (!found) return act(agent_.coordinator_lost(lost + ", and there is no thread to look for another one"));
  if (search_->needs_proof && !found->is_dead) return wait_for_silence();
  search_->needs_proof ? agent_.coordinator_died() : agent_.coordinator_is_silent();
  if (found->visit) {
    log(LogLevel::note,
        "this node goes on with the node at " + net::host_and_port(found->successor->address, found->successor->port));
    agent_.follows(*found->successor);
    return connect(std::move(*found->visit));
  }
  if (search_->may_lead) return callbacks_.report(LinkChanges{});
  act(agent_.coordinator_lost(lost + ", and no other node leads the job"));
}

}  // namespace ddp::launcher

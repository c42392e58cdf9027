#include "launcher/job/agent_node.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <utility>

#include "base/text.h"
#include "launcher/job/node_hello.h"
#include "launcher/limits.h"
#include "net/address.h"

namespace ddp::launcher {

using Clock = std::chrono::steady_clock;

// Holds the result of a search for the coordinator. Neither `visit` nor `is_own` is set if the search has given up.
struct AgentNode::Found {
  std::optional<store::StoreVisit> visit;
  bool is_own = false;
  bool is_refused = false;  // a store answered and does not let this node in
};

// Searches for the coordinator until it is found. This runs on a separate thread, because name resolution and nodes may
// be slow or hang.
struct AgentNode::Search {
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
};

AgentNode::AgentNode(net::EventLoop& loop, const LaunchPlan& plan, Callbacks callbacks, bool may_be_first)
    : Node(loop, plan, std::move(callbacks), plan.nodes.node_timeout),
      may_be_first_(may_be_first),
      until_(Clock::now() + plan.nodes.join_timeout),
      word_due_(Clock::now() + limits::kNodeFirstWord) {
  search();
}

AgentNode::~AgentNode() {
  search_->is_given_up = true;
}

void AgentNode::send(const wire::ControlMessage& message) {
  if (!link_) return;
  log_message("to", message);
  link_->send(message);
}

void AgentNode::log_message(const std::string& way, const wire::ControlMessage& message) const {
  callbacks_.log({LogLevel::trace, LogSource::nodes, way + " the first node: " + std::string(wire::name_of(message))});
}

void AgentNode::set_addresses(Placement& place) const {
  place.master_addr = net::peer_endpoint(link_->fd()).value_or(net::Endpoint{}).address.text();
  place.master_port = plan_.store.port;
  place.interface = net::interface_of(net::own_endpoint(link_->fd()).value_or(net::Endpoint{}).address);
}

// Sends whole lines if the bytes contain the end of a line.
std::optional<std::size_t> AgentNode::print(wire::Subject what, std::string_view bytes) {
  if (!link_ || !agent_.runs()) return std::nullopt;
  if (link_->unsent() > 0) link_->flush();
  if (link_->unsent() >= limits::kPrintedUnsent) return 0;
  bytes = bytes.substr(0, limits::kPrintedAtOnce);
  if (const std::size_t end = bytes.rfind('\n'); end != std::string_view::npos) bytes = bytes.substr(0, end + 1);
  act(agent_.show(what, std::string(bytes)));
  return bytes.size();
}

void AgentNode::search() {
  callbacks_.log({LogLevel::debug, LogSource::nodes, "looking for the first node at " + endpoint()});
  search_ = std::make_shared<Search>();
  search_->host = plan_.store.advertised;
  search_->port = plan_.store.port;
  search_->token = plan_.store.token;
  search_->until = until_;
  search_->may_be_own = may_be_first_;
  looking_ = std::make_unique<base::SideThread<Found>>([search = search_] { return search->run(); });
  found_ = loop_.watch_readable(looking_->ready(), [this] { begin(); });
  timer_ = loop_.at(word_due_, [this] { tell_of_search(); });
}

void AgentNode::tell_of_search() {
  const std::lock_guard lock(search_->mutex);
  const std::string& why = search_->last_try.empty() ? last_loss_ : search_->last_try;
  const auto left = std::max(until_ - Clock::now(), Clock::duration(0));
  callbacks_.log({LogLevel::note, LogSource::nodes,
                  "looking for the first node at " + endpoint() + " for another " + base::human_duration(left) +
                      (why.empty() ? "" : " (" + why + ")")});
  word_due_ = Clock::now() + limits::kNodeNextWord;
  timer_ = loop_.at(word_due_, [this] { tell_of_search(); });
}

void AgentNode::begin() {
  timer_.reset();
  auto found = looking_->result();
  if (found && found->is_own) return callbacks_.is_first();
  if (found && found->visit) {
    found->visit->outlast(plan_.nodes.node_timeout);
    link_ =
        std::make_unique<ControlLink>(loop_, std::move(*found->visit),
                                      ControlLink::Callbacks{[this](const wire::ControlMessage& message) {
                                                               has_heard_ = true;
                                                               log_message("from", message);
                                                               act(agent_.heard(message, Clock::now()));
                                                             },
                                                             [this](const std::string& why) { lose(std::string(why)); },
                                                             [this] { callbacks_.can_print(); }});
  } else {
    const std::string last_try = found ? search_->last_try : "cannot start a thread to look for it";
    if (found && found->is_refused) return act(agent_.coordinator_refuses(last_try));
    const bool is_late = Clock::now() >= until_;
    return act(agent_.coordinator_lost(
        (is_late ? "not found within " + base::human_duration(plan_.nodes.join_timeout) + ": " : "") + last_try));
  }
  callbacks_.log({LogLevel::debug, LogSource::nodes, "connected to the first node at " + endpoint()});
  const wire::NodeHello hello = make_node_hello(plan_);  // may take long if the program is large
  act(agent_.connected(hello, Clock::now()));
  tick();
}

void AgentNode::tick() {
  if (agent_.may_look_again() && agent_.is_silent(Clock::now())) {
    return lose("it has sent nothing for " + base::human_duration(plan_.nodes.node_timeout));
  }
  act(agent_.tick(Clock::now()));
  if (!agent_.has_left()) timer_ = loop_.at(agent_.alarm(), [this] { tick(); });
}

// The coordinator closes new connections without a message while the store is emptied for an attempt, and after the end
// of its job. The store of another ddplaunch job closes all of them.
void AgentNode::lose(const std::string& why) {
  link_.reset();
  last_loss_ =
      why + (has_heard_ ? "" : " without a reply; it may belong to another job or require a token (--auth-token-file)");
  if (!agent_.may_look_again() || Clock::now() + limits::kNodeHeartbeat > until_)
    return act(agent_.coordinator_lost(last_loss_));
  if (std::exchange(has_heard_, false)) {
    callbacks_.log({LogLevel::warning, LogSource::nodes,
                    "the first node (" + endpoint() + ") is lost: " + why + "; looking for it again"});
  }
  timer_ = loop_.at(Clock::now() + limits::kNodeConnectPause, [this] { search(); });
}

}  // namespace ddp::launcher

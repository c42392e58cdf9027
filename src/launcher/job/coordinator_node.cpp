#include "launcher/job/coordinator_node.h"

#include <algorithm>
#include <utility>

#include "launcher/job/node_hello.h"
#include "launcher/job/store_listener.h"
#include "launcher/limits.h"
#include "launcher/plan/rendezvous_plan.h"
#include "net/address.h"

namespace ddp::launcher {

using Clock = std::chrono::steady_clock;

namespace {

// The note comes before the end of the job.
std::chrono::nanoseconds time_to_note(const HangPlan& hang) {
  const std::chrono::nanoseconds usual = limits::kStoreWaitNote;
  return hang.timeout ? std::min<std::chrono::nanoseconds>(usual, *hang.timeout / 2) : usual;
}

}  // namespace

CoordinatorNode::CoordinatorNode(net::EventLoop& loop, const LaunchPlan& plan, Callbacks callbacks)
    : Node(loop, plan, std::move(callbacks), std::chrono::milliseconds(0)),
      coordinator_({plan.nodes, plan.max_restarts, plan.image_cost, plan.exit_timeout}, make_node_hello(plan),
                   Clock::now()),
      store_waits_(time_to_note(plan.hang)) {}

std::optional<std::string> CoordinatorNode::listen(const std::string& address) {
  store::StoreServerOptions options;
  options.limits = plan_.store.limits;
  options.open = plan_.store.open;
  options.authenticator = plan_.store.token;
  options.ranked_sockets = callbacks_.worker_sockets;
  options.on_rejection = [this](const std::string& peer, const std::string& reason) {
    tell_of_rejection(peer, reason);
  };
  options.on_given_up = [this](const std::string& text) {
    callbacks_.log({LogLevel::warning, LogSource::store, "store: " + text});
  };
  const bool has_others = plan_.nodes.several();
  if (has_others) {
    options.open_to_machines = true;
    options.on_control = [this](store::ConnectionId from, const std::string& peer, const std::string& bytes) {
      hear(from, peer, bytes);
    };
    options.on_control_lost = [this](store::ConnectionId from) {
      act_as_coordinator(coordinator_.lost(from, "it has closed the connection", Clock::now()));
    };
  }
  auto server =
      listen_at(address, plan_.store.port, options, has_others ? "--rdzv-endpoint" : "--local-addr", has_others);
  if (!server) return server.error().message;
  server_ = std::move(server).value();
  callbacks_.log({LogLevel::debug, LogSource::store,
                  "the store listens on " + net::host_and_port(server_->address(), server_->port())});
  watch_ = loop_.keep_watching(server_->fd(), [this] { server_->serve(); });
  timer_ = loop_.at(Clock::now(), [this] { act_as_coordinator(coordinator_.begin(Clock::now())); });
  if (!plan_.hang.is_off()) look_for_waits();
  return std::nullopt;
}

void CoordinatorNode::look_for_waits() {
  const auto now = Clock::now();
  for (const std::string& sentence : store_waits_.add(server_->long_waits(limits::kStoreWaitLook), now)) {
    callbacks_.log({LogLevel::note, LogSource::hangs, sentence});
  }
  waits_timer_ = loop_.at(now + limits::kStoreWaitLook, [this] { look_for_waits(); });
}

void CoordinatorNode::tell_of_rejection(const std::string& peer, const std::string& reason) {
  const std::string line = "the store refused " + peer + ": " + reason;
  if (!plan_.nodes.several()) return callbacks_.log({LogLevel::warning, LogSource::store, line});
  // Launchers retry, so a rejection that repeats the previous one is not logged.
  const std::string host = peer.substr(0, peer.rfind(':'));
  if (std::exchange(last_rejection_, host + reason) == host + reason) return;
  if (const auto allowed = coordinator_.line_on_stranger(host, line)) {
    callbacks_.log({LogLevel::warning, LogSource::store, *allowed});
  }
}

void CoordinatorNode::hear(store::ConnectionId from, const std::string& peer, const std::string& bytes) {
  const auto message = wire::decode_control(bytes);
  if (!message) {
    server_->close_control(from);
    return act_as_coordinator(
        coordinator_.lost(from, "it sent a message that this version of ddplaunch does not know", Clock::now()));
  }
  last_peer_ = peer;
  callbacks_.log({LogLevel::trace, LogSource::nodes, "from " + peer + ": " + std::string(wire::name_of(*message))});
  act_as_coordinator(coordinator_.heard(from, peer.substr(0, peer.rfind(':')), *message, Clock::now()));
}

void CoordinatorNode::send(const wire::ControlMessage& message) {
  act_as_coordinator(coordinator_.heard(kOwnNode, "", message, Clock::now()));
}

// If the store listens on all interfaces, sets the address at which other nodes reach this one.
void CoordinatorNode::set_addresses(Placement& place) const {
  place.master_port = server_->port();
  place.master_addr = plan_.nodes.several() ? server_->address() : plan_.store.advertised;
  if (!plan_.nodes.several()) return;
  std::string other = last_peer_.substr(0, last_peer_.rfind(':'));
  if (other.starts_with('[')) other = other.substr(1, other.size() - 2);
  const auto own = net::own_address_towards(other.empty() ? plan_.store.advertised : other);
  const bool is_everywhere = place.master_addr == "::" || place.master_addr == "0.0.0.0";
  if (is_everywhere && own) place.master_addr = own->text();
  if (own && place.node_count > 1) place.interface = net::interface_of(*own);
}

std::optional<std::string> CoordinatorNode::warning() const {
  // The plan has its own note about an open store.
  if (!plan_.nodes.several()) return plan_.store.open ? std::nullopt : server_->warning();
  if (!is_loopback(server_->address())) return plan_.store.open ? std::nullopt : server_->warning();
  return server_->address() +
         " is a loopback address: other nodes cannot reach the coordinator through it. Give an address of the first "
         "node (--rdzv-endpoint, --master-addr)";
}

void CoordinatorNode::set_paused(bool is_paused) {
  coordinator_.set_paused(is_paused, Clock::now());
  act_as_coordinator({});
}

void CoordinatorNode::act_as_coordinator(std::vector<CoordinatorAction> actions) {
  queue_.take(std::move(actions), [this](const auto& specific) { carry_out(specific); });
  if (queue_.is_taking()) return;
  const Clock::time_point next = is_through_ ? Clock::time_point::max() : coordinator_.alarm();
  // A timer for the same time is not set again. Otherwise it would never expire while messages arrive all the time.
  if (std::exchange(rings_at_, next) == next) return;
  timer_.reset();
  if (next == Clock::time_point::max()) return;
  timer_ = loop_.at(next, [this] {
    rings_at_ = {};
    act_as_coordinator(coordinator_.tick(Clock::now()));
  });
}

void CoordinatorNode::carry_out(const SendToNode& action) {
  if (action.to == kOwnNode) return act(agent_.heard(action.message, Clock::now()));
  callbacks_.log({LogLevel::trace, LogSource::nodes,
                  "to connection " + std::to_string(action.to) + ": " + std::string(wire::name_of(action.message))});
  wire::ControlMessage message = action.message;
  if (auto* asks = std::get_if<wire::CoordinatorAsks>(&message)) {
    // The answer repeats this time, which then shows how the clocks of the two nodes differ.
    asks->sent_at = static_cast<std::uint64_t>(std::chrono::nanoseconds(Clock::now().time_since_epoch()).count());
  }
  server_->send_control(action.to, wire::encode(message));
}

void CoordinatorNode::carry_out(const CoordinatorIsThrough&) {
  is_through_ = true;
  callbacks_.through();
}

}  // namespace ddp::launcher

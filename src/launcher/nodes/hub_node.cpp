#include "launcher/nodes/hub_node.h"

#include <chrono>
#include <utility>

#include "launcher/nodes/node_hello.h"
#include "launcher/plan/rendezvous_plan.h"
#include "launcher/rendezvous/store_listener.h"
#include "net/address.h"

namespace ddp::launcher {

using Clock = std::chrono::steady_clock;

HubNode::HubNode(net::EventLoop& loop, const LaunchPlan& plan, Callbacks callbacks)
    : Node(loop, plan, std::move(callbacks), std::chrono::milliseconds(0)),
      hub_({plan.nodes.min, plan.nodes.max, plan.nodes.rank.has_value(), plan.max_restarts, plan.nodes.join_timeout,
            plan.nodes.last_call, plan.nodes.node_timeout, plan.exit_timeout},
           make_node_hello(plan), Clock::now()) {}

std::optional<std::string> HubNode::listen(const std::string& address) {
  store::StoreServerOptions options;
  options.limits = plan_.store.limits;
  options.open = plan_.store.open;
  options.open_to_machines = true;
  options.authenticator = plan_.store.token;
  options.ranked_sockets = callbacks_.worker_sockets;
  options.on_rejection = [this](const std::string& peer, const std::string& reason) {
    // Launchers try again and again.
    const std::string host = peer.substr(0, peer.rfind(':'));
    if (std::exchange(last_rejection_, host + reason) == host + reason) return;
    const auto line = stranger_lines_.allow(host, "the store sent " + peer + " away: " + reason);
    if (line) callbacks_.warn(*line);
  };
  options.on_given_up = [this](const std::string& text) { callbacks_.warn("store: " + text); };
  options.on_control = [this](store::ConnectionId from, const std::string& peer, const std::string& bytes) {
    hear(from, peer, bytes);
  };
  options.on_control_lost = [this](store::ConnectionId from) {
    act_as_hub(hub_.lost(from, "it has closed the connection", Clock::now()));
  };
  auto server = listen_at(address, plan_.store.port, options, "--rdzv-endpoint", /*for_others=*/true);
  if (!server) return server.error().message;
  server_ = std::move(server).value();
  watch_ = loop_.keep_watching(server_->fd(), [this] { server_->serve(); });
  timer_ = loop_.at(Clock::now(), [this] { act_as_hub(hub_.begin(Clock::now())); });
  return std::nullopt;
}

void HubNode::hear(store::ConnectionId from, const std::string& peer, const std::string& bytes) {
  const auto message = wire::decode_control(bytes);
  if (!message) {
    server_->close_control(from);
    return act_as_hub(hub_.lost(from, "it says what this version of ddplaunch does not know", Clock::now()));
  }
  last_peer_ = peer;
  act_as_hub(hub_.heard(from, peer.substr(0, peer.rfind(':')), *message, Clock::now()));
}

void HubNode::send(const wire::ControlMessage& message) {
  act_as_hub(hub_.heard(kOwnNode, "", message, Clock::now()));
}

// As the others see us, where we listen everywhere.
void HubNode::set_addresses(const wire::HubBegins& begins, NodeAssignment& place) const {
  place.master_port = server_->port();
  place.master_addr = server_->address();
  std::string other = last_peer_.substr(0, last_peer_.rfind(':'));
  if (other.starts_with('[')) other = other.substr(1, other.size() - 2);
  const auto own = net::own_address_towards(other.empty() ? plan_.store.advertised : other);
  const bool is_everywhere = place.master_addr == "::" || place.master_addr == "0.0.0.0";
  if (is_everywhere && own) place.master_addr = own->text();
  if (own && begins.node_count > 1) place.interface = net::interface_of(*own);
}

std::optional<std::string> HubNode::warning() const {
  if (!is_loopback(server_->address())) return server_->warning();
  return "every machine has an address " + server_->address() +
         " of its own: no other one finds the first node there (--rdzv-endpoint, --master-addr)";
}

void HubNode::act_as_hub(std::vector<HubAction> actions) {
  turns_.take(std::move(actions), [this](const auto& specific) { carry_out(specific); });
  if (turns_.is_taking()) return;
  if (is_through_) return timer_.reset();
  // One that is due is not set again: where something is always to be heard, it would never have its turn.
  if (std::exchange(rings_at_, hub_.alarm()) == hub_.alarm()) return;
  timer_ = loop_.at(rings_at_, [this] {
    rings_at_ = {};
    act_as_hub(hub_.tick(Clock::now()));
  });
}

void HubNode::carry_out(const SendToNode& action) {
  if (action.to == kOwnNode) return act(agent_.heard(action.message, Clock::now()));
  server_->send_control(action.to, wire::encode(action.message));
}

void HubNode::carry_out(const HubIsThrough&) {
  is_through_ = true;
  loop_.stop();
}

}  // namespace ddp::launcher

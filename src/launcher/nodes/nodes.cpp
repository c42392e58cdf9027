#include "launcher/nodes/nodes.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/exit_code.h"
#include "base/limits.h"
#include "base/text.h"
#include "launcher/nodes/hub.h"
#include "launcher/nodes/node_hello.h"
#include "launcher/rendezvous/store_listener.h"
#include "net/address.h"
#include "store/store_visit.h"

namespace ddp::launcher {
namespace {

using Clock = std::chrono::steady_clock;

std::string endpoint_of(const LaunchPlan& plan) {
  return store::host_and_port(plan.store.advertised, plan.store.port);
}

// What is done may bring about more; that has its turn afterwards.
template <typename Action>
class Turns {
 public:
  template <typename CarryOut>
  void take(std::vector<Action> actions, CarryOut&& carry_out) {
    for (Action& action : actions) waiting_.push_back(std::move(action));
    if (std::exchange(is_taking_, true)) return;
    while (!waiting_.empty()) {
      const Action action = std::move(waiting_.front());
      waiting_.pop_front();
      std::visit(carry_out, action);
    }
    is_taking_ = false;
  }
  bool is_taking() const { return is_taking_; }

 private:
  std::deque<Action> waiting_;
  bool is_taking_ = false;
};

// What both kinds of node have: the agent, and its clock.
class Node : public Nodes {
 public:
  Node(net::EventLoop& loop, const LaunchPlan& plan, Callbacks callbacks, std::chrono::milliseconds node_timeout)
      : loop_(loop),
        plan_(plan),
        callbacks_(std::move(callbacks)),
        agent_(endpoint_of(plan), node_timeout, Clock::now()) {}

  void failed(const wire::Cause& cause) override { act(agent_.failed(cause)); }
  void workers_ended() override { act(agent_.workers_ended()); }

 protected:
  virtual void send(const wire::ControlMessage& message) = 0;
  virtual NodeAssignment place_of(const wire::HubBegins& begins) const = 0;

  void act(std::vector<NodeAction> actions) {
    turns_.take(std::move(actions), [this](const auto& specific) { carry_out(specific); });
  }

  NodeAssignment assignment(const wire::HubBegins& begins) const {
    NodeAssignment place;
    place.node_rank = begins.node_rank;
    place.node_count = begins.node_count;
    place.first_rank = begins.first_rank;
    place.world_size = begins.world_size;
    place.attempt = begins.attempt;
    return place;
  }

  net::EventLoop& loop_;
  const LaunchPlan& plan_;
  const Callbacks callbacks_;
  NodeAgent agent_;

 private:
  void carry_out(const StartWorkers& action) {
    callbacks_.inform(base::counted(action.place.node_count, "node") + ", " +
                      base::counted(action.place.world_size, "worker") + ": " + action.place.nodes);
    callbacks_.start(place_of(action.place));
  }
  void carry_out(const EndWorkers& action) { callbacks_.end(action.cause); }
  void carry_out(const SendToHub& action) { send(action.message); }
  void carry_out(const TellHere& action) { callbacks_.tell(action.line); }
  void carry_out(const LeaveJob& action) { callbacks_.leave(action.cause); }

  Turns<NodeAction> turns_;
};

class HubNode : public Node {
 public:
  HubNode(net::EventLoop& loop, const LaunchPlan& plan, Callbacks callbacks)
      : Node(loop, plan, std::move(callbacks), std::chrono::milliseconds(0)),
        hub_({plan.nodes.min, plan.nodes.max, plan.nodes.rank.has_value(), plan.max_restarts, plan.nodes.join_timeout,
              plan.nodes.last_call, plan.nodes.node_timeout},
             make_node_hello(plan), Clock::now()) {}

  // Where nobody can listen: why.
  std::optional<std::string> listen(const std::string& address) {
    store::StoreServerOptions options;
    options.limits = plan_.store.limits;
    options.open = plan_.store.open;
    options.open_to_machines = true;
    options.authenticator = plan_.store.token;
    options.ranked_sockets = callbacks_.worker_sockets;
    options.on_rejection = [this](const std::string& peer, const std::string& reason) {
      callbacks_.warn("the store sent " + peer + " away: " + reason);
    };
    options.on_given_up = [this](const std::string& text) { callbacks_.warn("store: " + text); };
    options.on_control = [this](store::ConnectionId from, const std::string& peer, const std::string& bytes) {
      const auto message = wire::decode_control(bytes);
      if (!message) return server_->close_control(from);
      last_peer_ = peer;
      act_as_hub(hub_.heard(from, peer.substr(0, peer.rfind(':')), *message, Clock::now()));
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

  bool is_through() const override { return is_through_; }
  std::optional<std::string> warning() const override { return server_->warning(); }

 protected:
  void send(const wire::ControlMessage& message) override {
    act_as_hub(hub_.heard(kOwnNode, "", message, Clock::now()));
  }

  // As the others see us, where we listen everywhere.
  NodeAssignment place_of(const wire::HubBegins& begins) const override {
    NodeAssignment place = assignment(begins);
    place.master_port = server_->port();
    place.master_addr = server_->address();
    std::string other = last_peer_.substr(0, last_peer_.rfind(':'));
    if (other.starts_with('[')) other = other.substr(1, other.size() - 2);
    const auto own = net::own_address_towards(other.empty() ? plan_.store.advertised : other);
    const bool is_everywhere = place.master_addr == "::" || place.master_addr == "0.0.0.0";
    if (is_everywhere && own) place.master_addr = own->text();
    if (own && begins.node_count > 1) place.interface = net::interface_of(*own);
    return place;
  }

 private:
  void act_as_hub(std::vector<HubAction> actions) {
    turns_.take(std::move(actions), [this](const auto& specific) { carry_out(specific); });
    if (turns_.is_taking()) return;
    timer_ = is_through_ ? nullptr : loop_.at(hub_.alarm(), [this] { act_as_hub(hub_.tick(Clock::now())); });
  }

  void carry_out(const SendToNode& action) {
    if (action.to == kOwnNode) return act(agent_.heard(action.message, Clock::now()));
    server_->send_control(action.to, wire::encode(action.message));
  }
  void carry_out(const CloseNode& action) { server_->close_control(action.who); }
  void carry_out(const EmptyStore&) { server_->forget_all(); }
  void carry_out(const TellUser& action) { callbacks_.tell(action.line); }
  void carry_out(const HubIsThrough&) {
    is_through_ = true;
    loop_.stop();
  }

  Hub hub_;
  std::unique_ptr<store::StoreServer> server_;
  std::unique_ptr<net::Watch> watch_;
  std::unique_ptr<net::Watch> timer_;
  std::string last_peer_;
  Turns<HubAction> turns_;
  bool is_through_ = false;
};

// Looks for the hub until it is found, on a thread of its own: names and machines may take their time, or hang.
struct Search {
  std::string host;
  std::uint16_t port = 0;
  std::shared_ptr<const store::Authenticator> token;
  Clock::time_point until;
  base::UniqueFd ready{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::atomic<bool> is_given_up = false;
  std::mutex mutex;
  std::optional<store::StoreVisit> found;
  std::string last_try;

  void run() {
    while (!is_given_up && Clock::now() < until) {
      auto visit = store::StoreVisit::open(host, port, token, until);
      const std::lock_guard lock(mutex);
      if (visit) found.emplace(std::move(visit).value());
      if (visit) break;
      last_try = visit.error().message;
      // Another try helps only where nobody has answered.
      if (visit.error().kind == store::VisitFailure::Kind::refused) break;
      std::this_thread::sleep_for(limits::kNodeConnectPause);
    }
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(ready.get(), &one, sizeof one);
  }
};

class MemberNode : public Node {
 public:
  MemberNode(net::EventLoop& loop, const LaunchPlan& plan, Callbacks callbacks)
      : Node(loop, plan, std::move(callbacks), plan.nodes.node_timeout) {
    until_ = Clock::now() + plan.nodes.join_timeout;
    search();
  }
  ~MemberNode() override { search_->is_given_up = true; }

  bool is_through() const override { return true; }
  std::optional<std::string> warning() const override { return std::nullopt; }

 protected:
  void send(const wire::ControlMessage& message) override {
    if (!visit_) return;
    const auto said = visit_->say(wire::encode(message), Clock::now() + limits::kNodeBeat);
    if (!said) lose(said.error().message);
  }

  NodeAssignment place_of(const wire::HubBegins& begins) const override {
    NodeAssignment place = assignment(begins);
    place.master_addr = net::peer_endpoint(visit_->fd()).value_or(net::Endpoint{}).address.text();
    place.master_port = plan_.store.port;
    place.interface = net::interface_of(net::own_endpoint(visit_->fd()).value_or(net::Endpoint{}).address);
    return place;
  }

 private:
  void search() {
    search_ = std::make_shared<Search>();
    search_->host = plan_.store.advertised;
    search_->port = plan_.store.port;
    search_->token = plan_.store.token;
    search_->until = until_;
    watch_ = loop_.watch_readable(search_->ready.get(), [this] { begin(); });
    std::thread([search = search_] { search->run(); }).detach();
    look_ = loop_.at(Clock::now() + limits::kNodeFirstWord, [this] { tell_of_search(); });
  }

  void tell_of_search() {
    const std::lock_guard lock(search_->mutex);
    callbacks_.tell("looking for the first node at " + endpoint_of(plan_) +
                    (search_->last_try.empty() ? "" : " (" + search_->last_try + ")"));
    look_ = loop_.at(Clock::now() + limits::kNodeNextWord, [this] { tell_of_search(); });
  }

  void begin() {
    look_.reset();
    std::string last_try;
    {
      const std::lock_guard lock(search_->mutex);
      if (search_->found) visit_.emplace(std::move(*search_->found));
      last_try = search_->last_try;
    }
    if (!visit_) {
      return act(
          agent_.hub_lost("not found within " + base::human_duration(plan_.nodes.join_timeout) + ": " + last_try));
    }
    watch_ = loop_.keep_watching(visit_->fd(), [this] { hear(); });
    act(agent_.connected(make_node_hello(plan_), Clock::now()));
    if (visit_) tick();
  }

  void tick() {
    act(agent_.tick(Clock::now()));
    if (visit_ && !agent_.has_left()) look_ = loop_.at(agent_.alarm(), [this] { tick(); });
  }

  void hear() {
    std::array<char, 64 << 10> buffer;
    const ssize_t got = ::recv(visit_->fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) return lose(got == 0 ? "it has closed the connection" : std::strerror(errno));
    heard_.append(buffer.data(), static_cast<std::size_t>(got));
    while (visit_ && heard_.size() >= sizeof(std::uint64_t)) {
      std::uint64_t length = 0;
      std::memcpy(&length, heard_.data(), sizeof length);
      if (length > limits::kStoreUnsentBytes) return lose("it does not speak as a hub");
      if (heard_.size() < sizeof length + length) return;
      const auto message = wire::decode_control(std::string_view(heard_).substr(sizeof length, length));
      heard_.erase(0, sizeof length + length);
      if (!message) return lose("it is another version of ddplaunch");
      has_heard_ = true;
      act(agent_.heard(*message, Clock::now()));
    }
  }

  // A connection that was made just when the store was emptied for an attempt is closed before a word was said.
  void lose(const std::string& why) {
    watch_.reset();
    if (has_heard_ || Clock::now() + limits::kNodeConnectPause > until_) return act(agent_.hub_lost(why));
    visit_.reset();
    heard_.clear();
    look_ = loop_.at(Clock::now() + limits::kNodeConnectPause, [this] { search(); });
  }

  Clock::time_point until_;         // for the first word of the hub
  std::shared_ptr<Search> search_;  // shared with its thread
  std::optional<store::StoreVisit> visit_;
  std::string heard_;
  bool has_heard_ = false;
  std::unique_ptr<net::Watch> watch_;  // destroyed before what it watches
  std::unique_ptr<net::Watch> look_;
};

}  // namespace

// Who can listen at the address is the hub: names of hosts say nothing reliable. A name that stands for a loopback
// address, as many hosts have it for their own, is ours as well, and others reach it at another address.
base::Result<std::unique_ptr<Nodes>> Nodes::open(net::EventLoop& loop, const LaunchPlan& plan, Callbacks callbacks) {
  const bool may_be_hub = plan.nodes.rank.value_or(0) == 0;
  if (may_be_hub) {
    auto hub = std::make_unique<HubNode>(loop, plan, callbacks);
    const auto why = hub->listen(plan.store.bind_address);
    if (!why) return std::unique_ptr<Nodes>(std::move(hub));
    if (plan.nodes.rank) return base::Failure{*why + ". Node 0 listens there: --master-addr is an address of its own"};
  }
  return std::unique_ptr<Nodes>(std::make_unique<MemberNode>(loop, plan, std::move(callbacks)));
}

}  // namespace ddp::launcher

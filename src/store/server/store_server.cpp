// A session's parser passes requests to the table, and the table's replies go to the sessions of their receivers. All
// sessions share one input buffer. A client that does not read its replies is asked for nothing more, and then its
// connection is paused. The memory for all clients is limited. Above the limit, the client that holds most is closed.
#include "store/server/store_server.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <unordered_map>

#include "base/random.h"
#include "net/address.h"
#include "net/socket.h"
#include "store/limits.h"
#include "store/server/gatekeeper.h"
#include "store/server/served_client.h"
#include "store/server/server_poll.h"
#include "store/server/store_report_builder.h"
#include "store/server/store_table.h"

namespace ddp::store {
namespace {

using base::UniqueFd;

// These numbers replace a connection's number.
constexpr ConnectionId kListener = 0;
constexpr ConnectionId kTimer = 1;
constexpr ConnectionId kFirstClient = 2;

class Server : public StoreServer {
 public:
  explicit Server(StoreServerOptions options)
      : options_(std::move(options)),
        gatekeeper_(options_.open, options_.authenticator, options_.open_to_machines),
        table_(options_.limits, base::random64() | 1),
        most_clients_(std::min(options_.limits.connections, descriptors_for_clients())) {}

  base::Result<std::uint16_t> open(UniqueFd listener) {
    listener_ = std::move(listener);
    end_ = net::own_endpoint(listener_.get()).value_or(net::Endpoint{});
    if (!poll_.open(kTimer) || !poll_.watch(listener_.get(), kListener, EPOLLIN)) {
      return base::Failure{"cannot serve the store: " + std::string(std::strerror(errno))};
    }
    return end_.port;
  }

  std::uint16_t port() const override { return end_.port; }
  std::string address() const override { return end_.address.text(); }
  std::optional<std::string> warning() const override { return gatekeeper_.warning(end_.text()); }
  int fd() const override { return poll_.fd(); }

  void serve() override {
    now_ = TimePoint::clock::now();
    const TimePoint start = now_;
    const bool is_conversation = start - last_event_ < limits::kStoreConversation;
    do {
      if (serve_ready()) {
        last_event_ = now_;
      } else {
        ::sched_yield();  // yields to clients without a processor of their own
      }
      now_ = TimePoint::clock::now();
    } while (is_conversation && now_ - last_event_ < options_.awake && now_ - start < limits::kStoreTurn);
  }

  void add_client(UniqueFd socket, const std::string& name) override {
    now_ = TimePoint::clock::now();
    add(std::move(socket), name, options_.limits.of_requests());
  }

  void send_control(ConnectionId to, std::string_view message) override {
    deliver_text(to, message);
    send_replies();
  }

  void close_control(ConnectionId to) override {
    if (ServedClient* session = find(to)) session->say_no_more();
    dirty_.push_back(to);
    send_replies();
  }

  void forget_all() override {
    std::vector<ConnectionId> clients;
    for (const auto& [id, session] : sessions_) {
      if (!session->is_launcher && !unauthenticated_.contains(id)) clients.push_back(id);
    }
    for (const ConnectionId id : clients) drop(id);
    table_ = StoreTable(options_.limits, base::random64() | 1);
  }

  wire::StoreReport report() const override { return build_report(table_, all_of(sessions_), TimePoint::clock::now()); }

  std::vector<LongWait> long_waits(std::chrono::milliseconds least) override {
    if (table_.waiting_connections() > 0) find_ranks();
    return build_long_waits(table_, all_of(sessions_), TimePoint::clock::now() - least);
  }

 private:
  // Returns false if there were no events.
  bool serve_ready() {
    const auto events = poll_.ready();
    for (const epoll_event& event : events) {
      if (event.data.u64 == kListener) {
        accept_some();
      } else if (event.data.u64 == kTimer) {
        tick();
      } else {
        attend(event.data.u64, event.events);
      }
    }
    return !events.empty();
  }

  std::optional<ConnectionId> add(UniqueFd socket, const std::string& name, const wire::StoreRequestLimits& limits) {
    const ConnectionId id = next_id_++;
    auto session = std::make_unique<ServedClient>(id, std::move(socket), name, limits, now_);
    session->interest = EPOLLIN;
    if (!poll_.watch(session->fd(), id, session->interest)) {
      reject(name, "epoll: " + std::string(std::strerror(errno)));
      return std::nullopt;
    }
    sessions_.emplace(id, std::move(session));
    return id;
  }

  void reject(const std::string& peer, const std::string& reason) const {
    if (options_.on_rejection) options_.on_rejection(peer, reason);
  }

  void accept_some() {
    for (int i = 0; i < limits::kStoreTurnAccepts; ++i) {
      UniqueFd socket = net::accept_tcp(listener_.get(), options_.unread_time);
      if (!socket && errno != EAGAIN) accept_later(errno);
      if (!socket) return;
      welcome(std::move(socket));
    }
  }

  void welcome(UniqueFd socket) {
    const auto peer_end = net::peer_endpoint(socket.get());
    if (!peer_end) return;  // the peer has disconnected
    const std::string peer = peer_end->text();
    const Admission admission = gatekeeper_.decide(socket.get(), peer_end->address);
    if (admission.verdict == Admission::Verdict::refuse) return reject(peer, admission.reason);
    const bool is_unauthenticated = admission.verdict == Admission::Verdict::authenticate;
    if (is_unauthenticated && unauthenticated_.size() >= most_unauthenticated(most_clients_)) {
      return reject(peer, admission.reason + ", like " + std::to_string(unauthenticated_.size()) + " others");
    }
    if (sessions_.size() >= most_clients_) {
      return reject(peer, "too many connections (connections " + std::to_string(most_clients_) + ")");
    }
    const auto id =
        add(std::move(socket), peer, is_unauthenticated ? kUnauthenticatedLimits : options_.limits.of_requests());
    if (!id || !is_unauthenticated) return;
    unauthenticated_.emplace(*id, now_ + limits::kStoreProofTime);
    poll_.set_timer(limits::kStoreProofTime);
  }

  // No client can be accepted now, so the next attempt is delayed.
  void accept_later(int error) {
    poll_.ignore(listener_.get());
    paused_ = true;
    poll_.set_timer(limits::kStoreAcceptPause);
    if (std::exchange(reported_pause_, true)) return;
    reject("new clients",
           error == EMFILE || error == ENFILE ? "no more descriptors (ulimit -n)" : std::strerror(error));
  }

  void tick() {
    if (!poll_.take_timer()) return;
    // The search runs now, because clients that disconnect during a wait cannot be searched for later.
    if (std::exchange(search_is_due_, false) && table_.waiting_connections() > 0) find_ranks();
    if (std::exchange(paused_, false)) poll_.watch(listener_.get(), kListener, EPOLLIN);
    std::vector<ConnectionId> late;
    for (const auto& [id, deadline] : unauthenticated_) {
      if (deadline <= now_) late.push_back(id);
    }
    for (const ConnectionId id : late) expel(id, "it did not prove in time that it knows the token");
    if (!unauthenticated_.empty()) poll_.set_timer(std::chrono::seconds(1));
  }

  ServedClient* find(ConnectionId id) const {
    const auto found = sessions_.find(id);
    return found == sessions_.end() ? nullptr : found->second.get();
  }

  void attend(ConnectionId id, std::uint32_t events) {
    ServedClient* session = find(id);
    if (session == nullptr) return;
    if ((events & EPOLLOUT) != 0) dirty_.push_back(id);
    if ((events & ~std::uint32_t{EPOLLOUT}) != 0) {
      const auto input = session->receive(input_);
      if (input == ServedClient::Input::timed_out)
        return expel(id, "it does not read its replies, or its node is unreachable");
      if (input != ServedClient::Input::open) return leave(*session, input == ServedClient::Input::closed);
      count_held(*session);
    }
    // Replies are sent when all received requests are carried out, or when there are many replies.
    do {
      carry_out_requests(id);
      send_replies();
      session = find(id);
    } while (session != nullptr && !session->is_full() && may_have_more_);
    enforce_budget();
  }

  // Continues until the client has no more requests, or too many unread replies.
  void carry_out_requests(ConnectionId id) {
    ServedClient* session = find(id);
    may_have_more_ = false;
    while (session != nullptr) {
      if (session->is_full()) {
        may_have_more_ = true;
        return;
      }
      auto next = session->parser().next();
      if (std::holds_alternative<wire::StoreNeedsMore>(next)) break;
      if (const auto* violation = std::get_if<wire::StoreViolation>(&next))
        return expel(id, unauthenticated_.contains(id) ? "it proved no token (--auth-token-file)" : violation->reason);
      carry_out(id, std::get<wire::StoreRequest>(next));
      session = find(id);
    }
    if (session != nullptr) dirty_.push_back(id);
  }

  void carry_out(ConnectionId from, const wire::StoreRequest& request) {
    if (!is_allowed_unauthenticated(request) && !is_welcome(from)) return;
    if (request.op == wire::StoreOp::auth_hello || request.op == wire::StoreOp::auth_proof) {
      return authenticate(from, request);
    }
    if (request.op == wire::StoreOp::control) return hear_launcher(from, request.values.front());
    if (request.op == wire::StoreOp::explain) find_ranks();
    if (request.op == wire::StoreOp::inspect) {
      find_ranks();
      return deliver_text(from, encode(report()));
    }
    const StoreOutcome outcome = table_.apply(from, request, now_);
    if (outcome.given_up) tell_of(*outcome.given_up, *find(from), "gave up waiting");
    if (!search_is_due_ && table_.waiting_connections() > 0) {
      search_is_due_ = true;
      poll_.set_timer(limits::kStoreReportedWait);
    }
    for (const StoreReply& reply : outcome.replies) deliver(reply.to, reply.bytes);
    if (outcome.violation) expel(from, outcome.violation->reason);
  }

  void hear_launcher(ConnectionId from, const std::string& message) {
    if (!options_.on_control) return expel(from, "it is a launcher, but this store serves no job on several nodes");
    find(from)->is_launcher = true;
    if (!find(from)->is_closing()) options_.on_control(from, find(from)->peer(), message);
  }

  // A client becomes authenticated when a launcher of its node proves the token. Expels clients that are not.
  bool is_welcome(ConnectionId id) {
    if (!unauthenticated_.contains(id)) return true;
    const int fd = find(id)->fd();
    const Admission admission = gatekeeper_.decide(fd, net::peer_endpoint(fd).value_or(net::Endpoint{}).address);
    if (admission.verdict == Admission::Verdict::admit) {
      accept_authenticated(id);
      return true;
    }
    expel(id, admission.reason);
    return false;
  }

  void accept_authenticated(ConnectionId id) {
    if (unauthenticated_.erase(id) > 0) find(id)->parser().set_limits(options_.limits.of_requests());
  }

  void authenticate(ConnectionId from, const wire::StoreRequest& request) {
    const auto peer = net::peer_endpoint(find(from)->fd());
    const auto answer = gatekeeper_.hear(from, peer.value_or(net::Endpoint{}).address, request);
    if (!answer) return expel(from, answer.error().message);
    if (gatekeeper_.has_proved(from)) accept_authenticated(from);
    deliver(from, answer.value());
  }

  void deliver_text(ConnectionId to, std::string_view text) {
    std::string bytes;
    wire::put_bytes(bytes, text);
    deliver(to, bytes);
  }

  void deliver(ConnectionId to, std::string_view bytes) {
    ServedClient* session = find(to);
    if (session == nullptr || session->is_closing()) return;
    if (session->unsent() + bytes.size() > options_.limits.unsent_bytes) {
      return expel(to,
                   "it does not read its replies (unsent-bytes " + std::to_string(options_.limits.unsent_bytes) + ")");
    }
    if (session->unsent() == 0) dirty_.push_back(to);
    session->send(bytes);
    count_held(*session);  // its turn may come much later
  }

  void send_replies() {
    // A client may disconnect during this loop, which wakes no other client and adds no reply.
    for (const ConnectionId id : std::exchange(dirty_, {})) {
      ServedClient* session = find(id);
      if (session == nullptr || !session->flush()) {
        drop(id);
        continue;
      }
      count_held(*session);
      update_interest(*session);
    }
  }

  void update_interest(ServedClient& session) {
    const std::uint32_t interest = (session.is_full() ? 0U : EPOLLIN) | (session.unsent() > 0 ? EPOLLOUT : 0U);
    if (interest == session.interest) return;
    session.interest = interest;
    poll_.change(session.fd(), session.id(), interest);
  }

  void count_held(ServedClient& session) {
    const std::size_t now = session.held_bytes();
    held_bytes_ += now - std::exchange(session.counted_bytes, now);
  }

  void enforce_budget() {
    while (held_bytes_ > options_.limits.buffer_bytes) {
      const auto most =
          std::ranges::max_element(sessions_, {}, [](const auto& entry) { return entry.second->counted_bytes; });
      expel(
          most->first,
          "it holds most of the memory for incomplete requests and unread replies, which is exhausted (buffer-bytes " +
              std::to_string(options_.limits.buffer_bytes) + ")");
    }
  }

  // PyTorch 1.13 closes the connection without a message when a wait times out.
  void leave(const ServedClient& session, bool in_order) {
    if (gatekeeper_.is_proving(session.id())) reject(session.peer(), kOtherToken);
    if (const auto wait = table_.wait_of(session.id())) tell_of(*wait, session, "left while waiting");
    drop(session.id(), in_order);
  }

  void tell_of(const StoreWait& wait, const ServedClient& session, const std::string& how) {
    if (!options_.on_given_up || now_ - wait.since < limits::kStoreReportedWait) return;
    find_ranks();
    options_.on_given_up(describe_given_up(table_, session, wait, how, now_));
  }

  // Searches for the ranks of clients that have not sent theirs.
  void find_ranks() {
    if (options_.ranked_sockets) introduce_ranks(sessions_, gatekeeper_, options_.ranked_sockets, table_);
  }

  void expel(ConnectionId id, const std::string& reason) {
    if (const ServedClient* session = find(id)) reject(session->peer(), reason);
    drop(id);
  }

  void drop(ConnectionId id, bool in_order = false) {
    const auto gone = sessions_.extract(id);
    if (gone.empty()) return;
    held_bytes_ -= gone.mapped()->counted_bytes;
    unauthenticated_.erase(id);
    gatekeeper_.forget(id);
    table_.forget(id);
    if (gone.mapped()->is_launcher && options_.on_control_lost) options_.on_control_lost(id, in_order);
  }

  const StoreServerOptions options_;
  UniqueFd listener_;
  ServerPoll poll_;
  net::Endpoint end_;
  Gatekeeper gatekeeper_;
  StoreTable table_;
  Clients sessions_;
  std::unordered_map<ConnectionId, TimePoint>
      unauthenticated_;  // unauthenticated clients and their deadlines for the proof
  ConnectionId next_id_ = kFirstClient;
  const std::size_t most_clients_;
  std::vector<ConnectionId> dirty_;  // have replies to send, or can take more
  std::size_t held_bytes_ = 0;       // memory held by all sessions
  bool may_have_more_ = false;       // the current client may have more requests
  bool search_is_due_ = false;       // a search for ranks is scheduled for the next tick
  bool paused_ = false;              // no connections are accepted
  bool reported_pause_ = false;
  TimePoint now_, last_event_;
  std::array<char, limits::kStoreReadBytes> input_;
};

}  // namespace

base::Result<std::unique_ptr<StoreServer>> StoreServer::listen(const std::string& address, std::uint16_t port,
                                                               StoreServerOptions options) {
  auto listener = net::listen_tcp(address, port, limits::kStoreBacklog);
  if (!listener) return listener.error();
  return serve_at(std::move(listener).value(), std::move(options));
}

base::Result<std::unique_ptr<StoreServer>> StoreServer::serve_at(base::UniqueFd listener, StoreServerOptions options) {
  auto server = std::make_unique<Server>(std::move(options));
  if (auto opened = server->open(std::move(listener)); !opened) return opened.error();
  return std::unique_ptr<StoreServer>(std::move(server));
}

}  // namespace ddp::store

#include "launcher/run/job/coordinator_server.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "base/hash.h"
#include "base/random.h"
#include "base/side_thread.h"
#include "launcher/limits.h"
#include "launcher/run/job/coordinator_client.h"
#include "launcher/run/job/node_hello.h"
#include "launcher/run/job/store_listener.h"
#include "launcher/run/job/witness_directory.h"
#include "launcher/run/process/image_directory.h"
#include "launcher/start/plan/rendezvous_plan.h"
#include "net/address.h"
#include "net/socket.h"
#include "store/client/store_visit.h"

namespace ddp::launcher {

using Clock = std::chrono::steady_clock;

namespace {

// The note comes before the end of the job.
std::chrono::nanoseconds time_to_note(const HangPlan& hang) {
  const std::chrono::nanoseconds usual = limits::kStoreWaitNote;
  return hang.timeout ? std::min<std::chrono::nanoseconds>(usual, *hang.timeout / 2) : usual;
}

CoordinatorOptions coordinator_options(const LaunchPlan& plan) {
  const std::string key = may_be_led_by_any_node(plan) ? base::hex64(base::random64()) : "";
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {key,
          plan.nodes,
          plan.max_restarts,
          plan.image_cost,
          !plan.image_dir.empty(),
          plan.earlier.count,
          std::chrono::duration_cast<std::chrono::milliseconds>(now).count(),
          plan.exit_timeout};
}

Agent leading(Agent agent) {
  agent.take_over();
  return agent;
}

store::StoreServerOptions options_of(const StorePlan& store) {
  store::StoreServerOptions options;
  options.limits = store.limits;
  options.open = store.open;
  options.authenticator = store.token;
  return options;
}

// Listens at the endpoint of a job that another node leads. It sends the launchers that come there to that node.
class Signpost : public net::Watch {
 public:
  // If it cannot listen, launchers that come later wait until another one listens there.
  Signpost(net::EventLoop& loop, const LaunchPlan& plan, const std::string& address, std::uint16_t port,
           wire::CoordinatorIsElsewhere there)
      : there_(std::move(there)) {
    store::StoreServerOptions options = options_of(plan.store);
    options.open_to_machines = true;
    options.on_control = [this](store::ConnectionId from, const std::string& /*peer*/, const std::string& bytes) {
      hear(from, bytes);
    };
    auto server = store::StoreServer::listen(address, port, std::move(options));
    if (!server) return;
    server_ = std::move(server).value();
    watch_ = loop.keep_watching(server_->fd(), [this] { server_->serve(); });
  }

 private:
  void hear(store::ConnectionId from, const std::string& bytes) {
    const auto message = wire::decode_control(bytes);
    const auto* news = message ? std::get_if<wire::CoordinatorIsElsewhere>(&*message) : nullptr;
    if (news != nullptr && news->job == there_.job) there_ = *news;
    // The coordinator refuses a launcher of another job, and says why.
    if (message && std::holds_alternative<wire::NodeHello>(*message)) server_->send_control(from, wire::encode(there_));
    server_->close_control(from);
  }

  wire::CoordinatorIsElsewhere there_;  // the coordinator says again and again where it is
  std::unique_ptr<store::StoreServer> server_;
  std::unique_ptr<net::Watch> watch_;
};

}  // namespace

// Launchers that start later look for the job at its endpoint, and the first of them listens there. This thread says to
// it where the job is.
class CoordinatorServer::Caller {
 public:
  Caller(const LaunchPlan& plan, const wire::CoordinatorIsElsewhere& here)
      : thread_(
            [is_over = is_over_, store = plan.store, request = store::StoreVisit::control_request(wire::encode(here))] {
              while (!*is_over) {
                const auto until = [] { return Clock::now() + limits::kNodeHeartbeat; };
                auto visit = store::StoreVisit::open(store.advertised, store.port, store.token, until());
                const bool is_sent = visit && net::send_all(visit.value().fd(), request, until());
                std::this_thread::sleep_for(is_sent ? 2 * limits::kNodeHeartbeat : limits::kNodeHeartbeat);
              }
              return true;
            }) {}
  ~Caller() { *is_over_ = true; }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

 private:
  const std::shared_ptr<std::atomic<bool>> is_over_ = std::make_shared<std::atomic<bool>>(false);
  base::SideThread<bool> thread_;
};

CoordinatorServer::~CoordinatorServer() = default;

CoordinatorServer::CoordinatorServer(net::EventLoop& loop, const LaunchPlan& plan, Callbacks callbacks)
    : AgentDriver(loop, plan, std::move(callbacks), new_agent(plan, std::chrono::milliseconds(0))),
      coordinator_(coordinator_options(plan), make_node_hello(plan), Clock::now()),
      store_waits_(time_to_note(plan.hang)) {}

CoordinatorServer::CoordinatorServer(net::EventLoop& loop, const LaunchPlan& plan, Callbacks callbacks,
                                     const Agent& agent, const wire::NodeHello& own,
                                     std::unique_ptr<net::Watch> signpost)
    : AgentDriver(loop, plan, std::move(callbacks), leading(agent), std::move(signpost)),
      coordinator_(coordinator_options(plan), own, Clock::now(), agent.takeover()),
      store_waits_(time_to_note(plan.hang)),
      job_(own.job) {}

store::StoreServerOptions CoordinatorServer::store_options() {
  store::StoreServerOptions options = options_of(plan_.store);
  options.ranked_sockets = callbacks_.worker_sockets;
  options.on_rejection = [this](const std::string& peer, const std::string& reason) {
    tell_of_rejection(peer, reason);
  };
  options.on_given_up = [this](const std::string& text) { log(LogLevel::warning, "store: " + text, LogSource::store); };
  if (plan_.nodes.several()) {
    options.open_to_machines = true;
    options.on_control = [this](store::ConnectionId from, const std::string& peer, const std::string& bytes) {
      hear(from, peer, bytes);
    };
    options.on_control_lost = [this](store::ConnectionId from, bool in_order) {
      const std::string why = in_order ? "it has closed the connection" : "its connection broke";
      act_as_coordinator(coordinator_.lost(from, why, in_order, Clock::now()));
    };
  }
  return options;
}

std::optional<std::string> CoordinatorServer::listen(const std::string& address) {
  const bool has_others = plan_.nodes.several();
  auto server = listen_at(address, plan_.store.port, store_options(), has_others ? "--rdzv-endpoint" : "--local-addr",
                          has_others);
  if (!server) return server.error().message;
  serve(std::move(server).value());
  return std::nullopt;
}

std::optional<std::string> CoordinatorServer::serve_at(base::UniqueFd listener) {
  auto server = store::StoreServer::serve_at(std::move(listener), store_options());
  if (!server) return server.error().message;
  serve(std::move(server).value());
  caller_ = std::make_unique<Caller>(plan_, wire::CoordinatorIsElsewhere{job_, server_->address(), server_->port()});
  return std::nullopt;
}

// The endpoint is on this node, so launchers that come later still look for the job here.
std::unique_ptr<JobLink> CoordinatorServer::changed() {
  const std::string address = server_->address();
  const std::uint16_t port = server_->port();
  watch_.reset();
  server_.reset();
  auto signpost = std::make_unique<Signpost>(loop_, plan_, address, port, *follows_);
  return std::make_unique<CoordinatorClient>(loop_, plan_, callbacks_, *follows_, /*may_be_first=*/false,
                                             std::move(signpost));
}

void CoordinatorServer::serve(std::unique_ptr<store::StoreServer> server) {
  server_ = std::move(server);
  log(LogLevel::debug, "the store listens on " + net::host_and_port(server_->address(), server_->port()),
      LogSource::store);
  const bool has_images = !plan_.image_dir.empty();
  images_word_ = Clock::now() + limits::kImageList;
  if (has_images) images_timer_ = loop_.at(Clock::now(), [this] { find_images(); });
  const bool has_taken_over = !job_.empty();
  if (!has_images || has_taken_over) timer_ = loop_.at(Clock::now(), [this] { begin(); });
  if (!plan_.hang.is_off()) find_long_waits();
}

void CoordinatorServer::begin() {
  if (std::exchange(has_begun_, true)) return;
  // The first nodes to come would begin the job. Until now, they wait in the queue of the kernel.
  watch_ = loop_.keep_watching(server_->fd(), [this] { server_->serve(); });
  act_as_coordinator(coordinator_.begin(Clock::now()));
  act(agent_.leads());
}

// File systems may be slow. A job must not begin anew because its images are not known yet, but it may go on.
void CoordinatorServer::find_images() {
  if (!has_begun_ && listing_ && Clock::now() >= images_word_) wait_for_images("does not answer");
  images_timer_ = loop_.at(Clock::now() + limits::kImageListPause, [this] { find_images(); });
  if (listing_) return;
  listing_ = std::make_unique<Listing>([directory = plan_.image_dir] { return list_images(directory); });
  images_watch_ = loop_.watch_readable(listing_->ready(), [this] {
    const Images found = listing_->result().value_or(std::nullopt).value_or(base::Failure{"cannot start a thread"});
    images_watch_.reset();
    listing_.reset();
    if (!found) return has_begun_ ? void() : wait_for_images("cannot be read: " + found.error().message);
    coordinator_.finds(found.value());
    begin();
  });
}

void CoordinatorServer::wait_for_images(const std::string& why) {
  if (std::exchange(images_problem_, why) == why) return;
  log(LogLevel::warning,
      "--image-dir=" + plan_.image_dir + " " + why + "; the job begins when it is known what is there", LogSource::job);
}

void CoordinatorServer::find_long_waits() {
  const auto now = Clock::now();
  for (const std::string& sentence : store_waits_.add(server_->long_waits(limits::kStoreWaitPoll), now)) {
    log(LogLevel::note, sentence, LogSource::hangs);
  }
  waits_timer_ = loop_.at(now + limits::kStoreWaitPoll, [this] { find_long_waits(); });
}

void CoordinatorServer::tell_of_rejection(const std::string& peer, const std::string& reason) {
  const std::string line = "the store refused " + peer + ": " + reason;
  if (!plan_.nodes.several()) return log(LogLevel::warning, line, LogSource::store);
  // Launchers retry, so a rejection that repeats the previous one is not logged.
  const std::string host = peer.substr(0, peer.rfind(':'));
  if (std::exchange(last_rejection_, host + reason) == host + reason) return;
  if (const auto allowed = coordinator_.limited_line_about(host, line)) {
    log(LogLevel::warning, *allowed, LogSource::store);
  }
}

void CoordinatorServer::hear(store::ConnectionId from, const std::string& peer, const std::string& bytes) {
  const auto message = wire::decode_control(bytes);
  if (!message) {
    server_->close_control(from);
    return act_as_coordinator(coordinator_.lost(from, "it sent a message that this version of ddplaunch does not know",
                                                /*in_order=*/false, Clock::now()));
  }
  last_peer_ = peer;
  log(LogLevel::trace, "from " + peer + ": " + std::string(wire::name_of(*message)));
  act_as_coordinator(coordinator_.heard(from, peer.substr(0, peer.rfind(':')), *message, Clock::now()));
}

void CoordinatorServer::send(const wire::ControlMessage& message) {
  act_as_coordinator(coordinator_.heard(kOwnNode, "", message, Clock::now()));
}

// If the store listens on all interfaces, sets the address at which other nodes reach this one.
void CoordinatorServer::set_addresses(Placement& place) const {
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

std::optional<std::string> CoordinatorServer::warning() const {
  // The plan has its own note about an open store.
  if (!plan_.nodes.several()) return plan_.store.open ? std::nullopt : server_->warning();
  if (!is_loopback(server_->address())) return plan_.store.open ? std::nullopt : server_->warning();
  return server_->address() +
         " is a loopback address: other nodes cannot reach the coordinator through it. Give an address of the first "
         "node (--rdzv-endpoint, --master-addr)";
}

void CoordinatorServer::set_paused(bool is_paused) {
  coordinator_.set_paused(is_paused, Clock::now());
  act_as_coordinator({});
}

void CoordinatorServer::act_as_coordinator(std::vector<CoordinatorAction> actions) {
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

void CoordinatorServer::carry_out(const SendToNode& action) {
  if (action.to == kOwnNode) return act(agent_.heard(action.message, Clock::now()));
  log(LogLevel::trace,
      "to connection " + std::to_string(action.to) + ": " + std::string(wire::name_of(action.message)));
  wire::ControlMessage message = action.message;
  if (auto* asks = std::get_if<wire::CoordinatorAsks>(&message)) {
    // The answer repeats this time, which then shows how the clocks of the two nodes differ.
    asks->sent_at = static_cast<std::uint64_t>(std::chrono::nanoseconds(Clock::now().time_since_epoch()).count());
  }
  server_->send_control(action.to, wire::encode(message));
}

void CoordinatorServer::carry_out(const ClaimElectorate& action) {
  if (claim_text_.empty()) claim_text_ = claim_text(plan_.host_name);
  const std::string name = "ddplaunch-" + action.job_key + "-" + std::to_string(action.attempt);
  log(LogLevel::debug, "claiming " + name + " in the witness " + plan_.nodes.witness);
  claim_ = std::make_unique<base::SideThread<ClaimAnswer>>(
      [directory = plan_.nodes.witness, name, text = claim_text_] { return claim(directory, name, text); });
  claim_watch_ = loop_.watch_readable(claim_->ready(), [this, attempt = action.attempt] {
    const ClaimAnswer none{ClaimAnswer::Kind::failed, "cannot start a thread"};
    act_as_coordinator(coordinator_.claimed(attempt, claim_->result().value_or(none), Clock::now()));
  });
}

void CoordinatorServer::carry_out(const CoordinatorIsThrough&) {
  is_through_ = true;
  callbacks_.report(OthersKnow{});
}

}  // namespace ddp::launcher

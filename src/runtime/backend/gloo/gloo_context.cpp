// This file wraps Gloo's connections and translates Gloo's exceptions to Error. Besides it, only gloo_watch uses Gloo.
//
// Gloo's rendezvous requires each rank to publish an address for every peer and to connect to all of them
// (connectFullMesh). Afterwards, messages are distinguished by a slot number.
//
// Gloo's own collectives are not used. When a connection breaks at the wrong moment, Gloo forgets to wake the thread
// that waits for a message of it. Only the owner of the message's buffer can wake that thread, and the buffers of
// Gloo's collectives are not accessible. So this file owns the buffers, and gloo_watch.h ends the waits that are in
// vain.
//
// A message that arrives for memory that no longer exists ends the process (std::terminate on Gloo's thread). So all
// connections are broken before a failure leaves this file.
#include "runtime/backend/gloo/gloo_context.h"

#include <ddp/error.h>

#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/device.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <future>
#include <mutex>
#include <optional>
#include <thread>

#include "base/hash.h"
#include "base/side_thread.h"
#include "base/sigpipe_guard.h"
#include "base/thread_name.h"
#include "base/unique_fd.h"
#include "net/address.h"
#include "runtime/backend/backend_errors.h"
#include "runtime/backend/gloo/gloo_watch.h"
#include "runtime/limits.h"
#include "runtime/peers/lost_rank.h"
#include "runtime/peers/node_group.h"

namespace ddp::internal {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
using Memory = gloo::transport::UnboundBuffer;

// Closing one of Gloo's connections waits until Gloo's thread has polled for incoming data once more. If no data
// arrive, the thread polls every 10 ms, so that n ranks need n times as long to disconnect. While a HurriedLoop::Guard
// exists, the thread polls all the time.
class HurriedLoop : public gloo::transport::tcp::Handler {
 public:
  // The loop must be destroyed after the device.
  explicit HurriedLoop(gloo::transport::Device& device)
      : signal_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE)) {
    // Without the signal, closing connections works too, but takes longer.
    auto* tcp = dynamic_cast<gloo::transport::tcp::Device*>(&device);
    if (tcp != nullptr && signal_) tcp->registerDescriptor(signal_.get(), EPOLLIN, this);
  }
  void handleEvents(int /*events*/) override {}

  class Guard {
   public:
    explicit Guard(HurriedLoop& loop) : loop_(loop) { ::eventfd_write(loop_.signal_.get(), 1); }
    ~Guard() {
      eventfd_t value = 0;
      ::eventfd_read(loop_.signal_.get(), &value);
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    HurriedLoop& loop_;
  };

 private:
  const base::UniqueFd signal_;
};

// Makes the device of the connections. On one node, every rank is reached over loopback. Between nodes,
// GLOO_SOCKET_IFNAME names the interface. Without it, the interface is the one that leads to the store, which all ranks
// reach. By itself, Gloo takes the address of the host name, which is a loopback address on many systems (Debian's
// 127.0.1.1). `store_host` is empty if unknown. The function passes Gloo's exceptions on.
std::shared_ptr<gloo::transport::Device> make_device(bool single_node, const std::string& store_host) {
  gloo::transport::tcp::attr attributes;
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");  // NOLINT(concurrency-mt-unsafe)
  if (interface != nullptr && *interface != '\0') {
    attributes.iface = interface;
  } else if (single_node) {
    attributes.hostname = "127.0.0.1";
  } else if (!store_host.empty()) {
    const auto own = net::own_address_towards(store_host);
    if (own && !own->is_loopback()) attributes.hostname = own->text();
  }
  const base::NamesThreads named("gloo");
  return gloo::transport::tcp::CreateDevice(attributes);
}

// Adapts the runtime's store to Gloo's interface.
class GlooStore : public gloo::rendezvous::Store {
 public:
  explicit GlooStore(std::shared_ptr<ddp::Store> store) : store_(std::move(store)) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    store_->set(key, std::string_view(data.data(), data.size()));
  }
  std::vector<char> get(const std::string& key) override {
    const std::string value = store_->get(key);
    return {value.begin(), value.end()};
  }
  void wait(const std::vector<std::string>& keys) override { store_->wait(keys, store_->timeout()); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override {
    store_->wait(keys, timeout);
  }

 private:
  std::shared_ptr<ddp::Store> store_;
};

// Returns whether the kernel reports that the other side of a connection was silent for too long. That side may still
// run, but be unreachable.
bool is_out_of_reach(const std::string& text) {
  return std::ranges::any_of(std::array{ETIMEDOUT, EHOSTUNREACH, ENETUNREACH},
                             [&](int error) { return text.find(std::strerror(error)) != std::string::npos; });
}

[[noreturn]] void translate(const gloo::Exception& exception) {
  const std::string text = exception.what();
  if (is_out_of_reach(text)) throw gloo_unreachable_error(text);
  if (text.find("Timed out") != std::string::npos || text.find("timeout") != std::string::npos) {
    throw gloo_late_error(text);
  }
  throw gloo_broken_error(text);
}

// Runs a Gloo call and translates the exceptions that it throws. Gloo writes to its sockets in this thread and in its
// device's thread. If a peer has died, these writes would raise SIGPIPE, and this rank would seem to have failed.
template <typename Function>
auto guarded(Function&& function) {
  const base::SigpipeGuard no_sigpipe;
  try {
    return function();
  } catch (const gloo::Exception& exception) {
    translate(exception);
  } catch (const Error&) {
    throw;  // already an error of the runtime
  } catch (const std::exception& exception) {
    throw gloo_unavailable_error(exception.what());
  }
}

// This key is set when every rank has connected to every other rank.
constexpr const char* kAllConnected = "all";

class Connections : public GlooContext {
 public:
  Connections(const BackendOptions& options, std::shared_ptr<ddp::Store> store)
      : on_one_node_(options.node_group && options.node_group->holds_all()),
        stands_for_(options.stands_for),
        lost_rank_(options.lost_rank),
        watch_(options.node_group) {
    auto device = guarded([&] { return make_device(on_one_node_, options.store_host); });
    hurried_loop_ = std::make_shared<HurriedLoop>(*device);
    context_ = std::make_shared<gloo::rendezvous::Context>(options.rank, options.size);
    context_->setTimeout(options.timeout);
    connect_all(options, std::move(device), make_prefix_store("gloo", std::move(store)));
    guarded([&] { watch_.watch_connections(*context_); });
  }
  ~Connections() override {
    const HurriedLoop::Guard hurry(*hurried_loop_);
    watch_.leave_connections();
    context_.reset();
  }
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  std::unique_ptr<GlooTransfers> start(std::span<const GlooMessage> outgoing, std::span<const GlooMessage> incoming,
                                       std::uint64_t tag, milliseconds timeout) override;

  void abort() override {
    watch_.abort();
    break_connections();
  }

  // Gloo breaks all connections when a message does not arrive in time. So this function waits a moment for a message
  // that was never requested.
  void break_connections() {
    if (context_->size == 1) return;
    const HurriedLoop::Guard hurry(*hurried_loop_);
    try {
      guarded([&] {
        std::byte nothing{};
        auto memory = context_->createUnboundBuffer(&nothing, sizeof nothing);
        memory->waitRecv(milliseconds(1));
      });
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the exception is expected
    }
  }

  // These functions return the ranks of the group that belong to a rank as Gloo counts them.
  int rank_of(int rank) const { return stands_for_.empty() ? rank : stands_for_[static_cast<std::size_t>(rank)][0]; }
  std::vector<int> all_behind(int rank) const {
    return stands_for_.empty() ? std::vector{rank} : stands_for_[static_cast<std::size_t>(rank)];
  }

  // Returns an error that names the lost rank of this node that is the root cause, or `error` if there is none. The
  // rank may still be ending, so the function waits for it if all ranks are on this node.
  Error lost_error(const Error& error) const {
    const auto end = Clock::now() + (on_one_node_ ? limits::kLostRankWait : milliseconds(0));
    std::optional<GlooWatch::Lost> lost = watch_.lost();
    while ((!lost || lost->failed) && Clock::now() < end) {
      std::this_thread::sleep_for(milliseconds(1));
      lost = watch_.lost();
    }
    return lost ? gone_error(lost->rank, lost->failed) : error;
  }

  // Returns the error to report. For a broken connection it names the cause; between nodes, all ranks report the same
  // error.
  Error agreed_error(const Error& error) const {
    const Error cause = error.kind() == ErrorKind::peer_lost ? lost_error(error) : error;
    return lost_rank_ ? lost_rank_->agree(cause) : cause;
  }

  bool waits_for_nodes() const { return !stands_for_.empty(); }

  // If several operations are under way, the first failure breaks the connections of the others. They then report the
  // first failure.
  Error cause_of(const Error& error) {
    const bool is_consequence = std::string_view(error.what()).find("caused pair closure") != std::string_view::npos;
    const std::lock_guard lock(mutex_);
    if (is_consequence && first_failure_) return *first_failure_;
    if (!first_failure_) first_failure_ = error;
    return error;
  }

  gloo::rendezvous::Context& context() { return *context_; }
  GlooWatch& watch() { return watch_; }

  // Returns the slot of a message of this length between two ranks. The length is part of the slot, because a message
  // that is longer than the memory for it would end the process.
  static std::uint64_t slot(std::uint64_t tag, int from, int to, std::size_t bytes) {
    base::Fnv1a64 hash;
    for (const std::uint64_t number :
         {tag, static_cast<std::uint64_t>(from), static_cast<std::uint64_t>(to), static_cast<std::uint64_t>(bytes)}) {
      hash.update(std::as_bytes(std::span(&number, 1)));
    }
    return hash.value() >> 1;
  }

 private:
  // Returns when all ranks have connected to all others. If a rank left before, it would break connections that others
  // still set up. Gloo cannot be interrupted. So a separate thread connects, and is left behind if a rank is gone or
  // the time is up.
  void connect_all(const BackendOptions& options, std::shared_ptr<gloo::transport::Device> device,
                   const std::shared_ptr<ddp::Store>& store) {
    const auto key_of = [](int rank) { return "came/" + std::to_string(rank); };
    auto connect = [store, key = key_of(options.rank), loop = hurried_loop_, context = context_,
                    device = std::move(device)]() mutable {
      store->set(key, "");
      GlooStore gloo_store(store);
      guarded([&] { context->connectFullMesh(gloo_store, device); });
      const std::string all = kAllConnected;
      if (store->add("connected", 1) == context->size) store->set(all, "");
      // From here on, only the group owns the device, the context and the loop.
      device.reset();
      context.reset();
      loop.reset();
      store->wait({&all, 1}, store->timeout());
    };
    const auto throw_late = [&] {
      std::vector<int> missing;
      for (int rank = 0; rank < options.size; ++rank) {
        const std::string key = key_of(rank);
        if (!store->check({&key, 1})) missing.push_back(rank_of(rank));
      }
      if (!missing.empty()) throw late_error(std::move(missing), options.timeout);
      throw not_connected_error(options.timeout);
    };
    const auto deadline = Clock::now() + options.timeout;
    std::future<void> connected = base::on_side_thread(std::move(connect));
    while (connected.wait_for(limits::kStorePoll) != std::future_status::ready) {
      // If a rank failed after all had connected, it is not reported here. The first operation reports the reason.
      const std::string all = kAllConnected;
      if (watch_.lost() && !store->check({&all, 1}))
        throw agreed_error(Error(ErrorKind::peer_lost, "a rank has exited"));
      if (Clock::now() >= deadline) throw_late();
    }
    try {
      connected.get();
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::peer_lost) throw agreed_error(error);
      if (error.kind() == ErrorKind::timeout) throw_late();
      throw;
    }
  }

  const bool on_one_node_;
  const std::vector<std::vector<int>> stands_for_;
  const std::shared_ptr<LostRank> lost_rank_;
  std::shared_ptr<HurriedLoop> hurried_loop_;  // must outlive the device
  std::shared_ptr<gloo::rendezvous::Context> context_;
  GlooWatch watch_;
  std::mutex mutex_;
  std::optional<Error> first_failure_;
};

using UnderWay = GlooWatch::Message;

class Transfers : public GlooTransfers {
 public:
  Transfers(Connections& connections, std::span<const GlooMessage> outgoing, std::span<const GlooMessage> incoming,
            std::uint64_t tag, milliseconds timeout)
      : connections_(connections), timeout_(timeout) {
    try {
      guarded([&] { post(outgoing, incoming, tag); });
    } catch (const Error& error) {
      fail(error);
    }
  }

  ~Transfers() override {
    // A failure elsewhere has left these messages behind.
    if (!messages_.empty()) connections_.break_connections();
  }
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  void wait() override {
    const auto deadline = Clock::now() + timeout_;
    GlooWatch& watch = connections_.watch();
    try {
      guarded([&] {
        // A message may arrive at the moment when the wait for it is aborted. So the code waits for it once more.
        bool once_more = false;
        while (!messages_.empty()) {
          const UnderWay& message = watch.begin_wait(this, messages_, once_more, deadline);
          current_ = message.peer;
          const GlooWatch::End end = watch.end_wait(this, wait_for(message, deadline));
          const bool in_vain = end == GlooWatch::End::in_vain;
          if (in_vain && once_more) throw gone_error(connections_.rank_of(message.peer), false);
          once_more = in_vain;
          if (end == GlooWatch::End::late) throw_late();
          if (end == GlooWatch::End::arrived) messages_.erase(messages_.begin() + (&message - messages_.data()));
        }
      });
    } catch (const Error& error) {
      fail(error);
    }
  }

 private:
  void post(std::span<const GlooMessage> outgoing, std::span<const GlooMessage> incoming, std::uint64_t tag) {
    gloo::rendezvous::Context& context = connections_.context();
    // If a message is sent before the peer has reported that it receives, Gloo's thread sends it after that report.
    // Otherwise this thread would send it. Gloo's thread would then spin, waiting for the connection's lock.
    for (const GlooMessage& message : outgoing) {
      add(message, true).send(message.peer, Connections::slot(tag, context.rank, message.peer, message.bytes));
    }
    for (const GlooMessage& message : incoming) {
      add(message, false).recv(message.peer, Connections::slot(tag, message.peer, context.rank, message.bytes));
    }
    // The code waits first for the messages that it receives.
    std::rotate(messages_.begin(), messages_.begin() + std::ssize(outgoing), messages_.end());
  }

  Memory& add(const GlooMessage& message, bool is_outgoing) {
    current_ = message.peer;
    auto memory = connections_.context().createUnboundBuffer(message.data, message.bytes);
    messages_.push_back({std::move(memory), message.peer, is_outgoing});
    return *messages_.back().memory;
  }

  // Throws the error of a timeout. If a peer's message has arrived meanwhile, the peer took part and is not named.
  [[noreturn]] void throw_late() {
    std::vector<int> missing;
    for (const UnderWay& message : messages_) {
      const UnderWay& asked = connections_.watch().begin_wait(this, {&message, 1}, false, Clock::time_point::min());
      const bool arrived = wait_for(asked, Clock::now());
      if (connections_.watch().end_wait(this, arrived) == GlooWatch::End::arrived) continue;
      for (const int rank : connections_.all_behind(message.peer)) missing.push_back(rank);
    }
    if (missing.empty()) missing = connections_.all_behind(messages_.front().peer);
    throw connections_.waits_for_nodes() ? late_nodes_error(std::move(missing), timeout_)
                                         : late_error(std::move(missing), timeout_);
  }

  // Returns false if the watch has ended the wait, which it does when the time is up.
  static bool wait_for(const UnderWay& message, Clock::time_point deadline) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now()) + limits::kGlooTimeoutDelay;
    int peer = 0;
    return message.is_outgoing ? message.memory->waitSend(&peer, left) : message.memory->waitRecv(&peer, left);
  }

  [[noreturn]] void fail(const Error& failure) {
    const Error error = connections_.cause_of(named(failure));
    // The ranks agree on the error before the other ranks see this rank's connections break.
    const Error reported = connections_.watch().aborted() ? error : connections_.agreed_error(error);
    // The connections must be broken while the buffers still exist.
    connections_.break_connections();
    connections_.watch().forget(this);
    messages_.clear();
    if (connections_.watch().aborted()) GlooWatch::throw_aborted();
    throw reported;
  }

  // Adds the rank to the error of a broken connection. The rank is the peer of the message that was posted or awaited
  // last.
  Error named(const Error& failure) const {
    if (failure.kind() != ErrorKind::peer_lost || failure.peer() != Error::kNobody) return failure;
    return gloo_lost_error(failure, connections_.rank_of(current_));
  }

  Connections& connections_;
  const milliseconds timeout_;
  std::vector<UnderWay> messages_;  // messages that have not been waited for
  int current_ = 0;                 // peer of the message that is posted or awaited
};

std::unique_ptr<GlooTransfers> Connections::start(std::span<const GlooMessage> outgoing,
                                                  std::span<const GlooMessage> incoming, std::uint64_t tag,
                                                  milliseconds timeout) {
  return std::make_unique<Transfers>(*this, outgoing, incoming, tag, timeout);
}

}  // namespace

std::unique_ptr<GlooContext> GlooContext::connect(const BackendOptions& options, std::shared_ptr<Store> store) {
  return std::make_unique<Connections>(options, std::move(store));
}

}  // namespace ddp::internal

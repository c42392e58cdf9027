// Gloo's connections. Its exceptions become ours here, and nobody else sees it but gloo_watch.h.
//
// Gloo's rendezvous asks each rank to publish an address for every peer and to connect to all of them
// (connectFullMesh). Afterwards messages are told apart by a slot number.
//
// Gloo's own collectives are not used. When a connection breaks at the wrong moment, Gloo forgets to wake the thread
// that waits for a message of it, and that thread can be woken by the owner of the message's buffer alone; those of
// Gloo's collectives are out of reach. So the buffers are ours, and gloo_watch.h ends the waits that are in vain.
//
// A message that arrives for memory that is not there any more ends the process (std::terminate on Gloo's thread). So
// before a failure leaves this file, all connections are broken.
#include "runtime/backend/gloo/gloo_context.h"

#include <ddp/error.h>

#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <future>
#include <mutex>
#include <optional>
#include <thread>

#include "base/hash.h"
#include "base/sigpipe_guard.h"
#include "base/text.h"
#include "runtime/backend/gloo/gloo_device.h"
#include "runtime/backend/gloo/gloo_watch.h"
#include "runtime/backend/late.h"
#include "runtime/limits.h"
#include "runtime/peers/lost_rank.h"
#include "runtime/peers/node_group.h"

namespace ddp::internal {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
using Memory = gloo::transport::UnboundBuffer;

// Gloo's view of our store.
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

// What the kernel says of a connection whose other side has been silent for too long: it may run, out of reach.
bool is_out_of_reach(const std::string& text) {
  return std::ranges::any_of(std::array{ETIMEDOUT, EHOSTUNREACH, ENETUNREACH},
                             [&](int error) { return text.find(std::strerror(error)) != std::string::npos; });
}

[[noreturn]] void translate(const gloo::Exception& exception) {
  const std::string text = exception.what();
  if (is_out_of_reach(text)) {
    throw Error(
        ErrorKind::peer_lost,
        "the network between the two does not answer, and the kernel has given the connection up (gloo: " + text + ")");
  }
  if (text.find("Timed out") != std::string::npos || text.find("timeout") != std::string::npos) {
    throw Error(ErrorKind::timeout, "a rank did not take part in time (gloo: " + text + ")");
  }
  throw Error(ErrorKind::peer_lost, "it has ended, or given up: a connection broke (gloo: " + text + ")");
}

// Runs a Gloo call and translates what it throws. Gloo writes to its sockets in this thread and in its device's, and a
// peer that has died would send us SIGPIPE there, which would look as if this rank had failed.
template <typename Function>
auto guarded(Function&& function) {
  const base::SigpipeGuard no_sigpipe;
  try {
    return function();
  } catch (const gloo::Exception& exception) {
    translate(exception);
  } catch (const Error&) {
    throw;  // ours
  } catch (const std::exception& exception) {
    throw Error(ErrorKind::unavailable,
                std::string("gloo: ") + exception.what() + " (if GLOO_SOCKET_IFNAME is set, is it an interface here?)");
  }
}

// Key that is set when every rank has connected to every other one.
constexpr const char* kAllConnected = "all";

class Connections : public GlooContext {
 public:
  Connections(const BackendOptions& options, std::shared_ptr<ddp::Store> store)
      : on_one_node_(options.node_group && options.node_group->holds_all()),
        stands_for_(options.stands_for),
        lost_rank_(options.lost_rank),
        watch_(options.node_group) {
    auto device = guarded([&] { return make_gloo_device(on_one_node_, options.store_host); });
    hurried_loop_ = std::make_shared<HurriedLoop>(*device);
    context_ = std::make_shared<gloo::rendezvous::Context>(options.rank, options.size);
    context_->setTimeout(options.timeout);
    connect_all(options, std::move(device), make_prefix_store("gloo", std::move(store)));
    guarded([&] { watch_.look_at_connections(*context_); });
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

  // Gloo breaks all connections when a message does not come in time: so this waits a moment for one that was not even
  // asked for.
  void break_connections() {
    if (context_->size == 1) return;
    const HurriedLoop::Guard hurry(*hurried_loop_);
    try {
      guarded([&] {
        std::byte nothing{};
        auto memory = context_->createUnboundBuffer(&nothing, sizeof nothing);
        memory->waitRecv(milliseconds(1));
      });
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): that is what was wanted
    }
  }

  // Ranks in the group, of those that Gloo counts.
  int rank_of(int rank) const { return stands_for_.empty() ? rank : stands_for_[static_cast<std::size_t>(rank)][0]; }
  std::vector<int> all_behind(int rank) const {
    return stands_for_.empty() ? std::vector{rank} : stands_for_[static_cast<std::size_t>(rank)];
  }

  // The rank of this node that is the cause is named, if there is one. It may still be ending; where it may be one
  // of another node, that is not waited for.
  Error lost_error(const Error& error) const {
    const auto end = Clock::now() + (on_one_node_ ? limits::kLostLook : milliseconds(0));
    std::optional<GlooWatch::Lost> lost = watch_.lost();
    while ((!lost || lost->failed) && Clock::now() < end) {
      std::this_thread::sleep_for(milliseconds(1));
      lost = watch_.lost();
    }
    return lost ? gone_error(lost->rank, lost->failed) : error;
  }

  // What a failure is told as: a broken connection with its cause, and between nodes as all tell it.
  Error told_as(const Error& error) const {
    const Error cause = error.kind() == ErrorKind::peer_lost ? lost_error(error) : error;
    return lost_rank_ ? lost_rank_->agree(cause) : cause;
  }

  bool waits_for_nodes() const { return !stands_for_.empty(); }

  // Of several operations under way the first to fail breaks the others' connections: then its failure is theirs.
  Error cause_of(const Error& error) {
    const bool is_consequence = std::string_view(error.what()).find("caused pair closure") != std::string_view::npos;
    const std::lock_guard lock(mutex_);
    if (is_consequence && first_failure_) return *first_failure_;
    if (!first_failure_) first_failure_ = error;
    return error;
  }

  gloo::rendezvous::Context& context() { return *context_; }
  GlooWatch& watch() { return watch_; }

  // Between two ranks, of a message of this length: one that is longer than the memory for it would end the process,
  // so it is another message.
  static std::uint64_t slot(std::uint64_t tag, int from, int to, std::size_t bytes) {
    base::Fnv1a64 hash;
    for (const std::uint64_t number :
         {tag, static_cast<std::uint64_t>(from), static_cast<std::uint64_t>(to), static_cast<std::uint64_t>(bytes)}) {
      hash.update(std::as_bytes(std::span(&number, 1)));
    }
    return hash.value() >> 1;
  }

 private:
  // Returns when all ranks have connected to all others: one that left before would break what others still connect.
  // Gloo cannot be interrupted, so a thread does it, and is left behind if a rank is gone or the time is up.
  void connect_all(const BackendOptions& options, std::shared_ptr<gloo::transport::Device> device,
                   const std::shared_ptr<ddp::Store>& store) {
    const auto key_of = [](int rank) { return "came/" + std::to_string(rank); };
    std::packaged_task<void()> task([store, key = key_of(options.rank), loop = hurried_loop_, context = context_,
                                     device = std::move(device)]() mutable {
      store->set(key, "");
      GlooStore gloo_store(store);
      guarded([&] { context->connectFullMesh(gloo_store, device); });
      const std::string all = kAllConnected;
      if (store->add("connected", 1) == context->size) store->set(all, "");
      // From here on they are the group's alone.
      device.reset();
      context.reset();
      loop.reset();
      store->wait({&all, 1}, store->timeout());
    });
    const auto throw_late = [&] {
      std::vector<int> missing;
      for (int rank = 0; rank < options.size; ++rank) {
        const std::string key = key_of(rank);
        if (!store->check({&key, 1})) missing.push_back(rank_of(rank));
      }
      if (!missing.empty()) throw late_error(std::move(missing), options.timeout);
      throw Error(ErrorKind::timeout,
                  "the ranks could not all connect within " + base::human_duration(options.timeout));
    };
    std::future<void> connected = task.get_future();
    const auto deadline = Clock::now() + options.timeout;
    std::thread(std::move(task)).detach();
    while (connected.wait_for(limits::kStoreLook) != std::future_status::ready) {
      // One that has failed after all had connected is no reason: the first operation says why.
      const std::string all = kAllConnected;
      if (watch_.lost() && !store->check({&all, 1})) throw told_as(Error(ErrorKind::peer_lost, "a rank has ended"));
      if (Clock::now() >= deadline) throw_late();
    }
    try {
      connected.get();
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::peer_lost) throw told_as(error);
      if (error.kind() == ErrorKind::timeout) throw_late();
      throw;
    }
  }

  const bool on_one_node_;
  const std::vector<std::vector<int>> stands_for_;
  const std::shared_ptr<LostRank> lost_rank_;
  std::shared_ptr<HurriedLoop> hurried_loop_;  // longer than the device
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
    // Left behind by a failure elsewhere.
    if (!messages_.empty()) connections_.break_connections();
  }
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  void wait() override {
    const auto deadline = Clock::now() + timeout_;
    GlooWatch& watch = connections_.watch();
    try {
      guarded([&] {
        // A message may arrive in the moment in which the wait for it is ended: so it is waited for once more.
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
    // What is sent before the other side has said that it receives is sent by Gloo's thread, when that is said. Else
    // this thread would send, and Gloo's thread run in circles meanwhile, waiting for the connection's lock.
    for (const GlooMessage& message : outgoing) {
      add(message, true).send(message.peer, Connections::slot(tag, context.rank, message.peer, message.bytes));
    }
    for (const GlooMessage& message : incoming) {
      add(message, false).recv(message.peer, Connections::slot(tag, message.peer, context.rank, message.bytes));
    }
    // Those that receive are waited for first.
    std::rotate(messages_.begin(), messages_.begin() + std::ssize(outgoing), messages_.end());
  }

  Memory& add(const GlooMessage& message, bool is_outgoing) {
    current_ = message.peer;
    auto memory = connections_.context().createUnboundBuffer(message.data, message.bytes);
    messages_.push_back({std::move(memory), message.peer, is_outgoing});
    return *messages_.back().memory;
  }

  // Whose message has arrived meanwhile took part.
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

  // False if the watch has ended it, which it does when the time is up.
  static bool wait_for(const UnderWay& message, Clock::time_point deadline) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now()) + limits::kGlooTimeoutDelay;
    int peer = 0;
    return message.is_outgoing ? message.memory->waitSend(&peer, left) : message.memory->waitRecv(&peer, left);
  }

  [[noreturn]] void fail(const Error& failure) {
    const Error error = connections_.cause_of(named(failure));
    // Before the other ranks see this one's connections break.
    const Error told = connections_.watch().aborted() ? error : connections_.told_as(error);
    // While the buffers are there.
    connections_.break_connections();
    connections_.watch().forget(this);
    messages_.clear();
    if (connections_.watch().aborted()) GlooWatch::throw_aborted();
    throw told;
  }

  // A connection that broke is that to the rank whose message was looked at.
  Error named(const Error& failure) const {
    if (failure.kind() != ErrorKind::peer_lost || failure.peer() != Error::kNobody) return failure;
    const int rank = connections_.rank_of(current_);
    return {failure.kind(), "rank " + std::to_string(rank) + " is lost: " + failure.what(), rank};
  }

  Connections& connections_;
  const milliseconds timeout_;
  std::vector<UnderWay> messages_;  // that have not been waited for
  int current_ = 0;                 // whose message is looked at
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

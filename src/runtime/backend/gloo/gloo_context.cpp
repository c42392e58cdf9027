// The only file that includes Gloo. Its exceptions become ours here.
//
// Gloo's rendezvous asks each rank to publish an address for every peer and to connect to all of them
// (connectFullMesh). Afterwards messages are told apart by a slot number.
//
// Gloo's own collectives are not used. When a connection breaks at the wrong moment, Gloo forgets to wake the thread
// that waits for a message of it, and that thread can be woken by the owner of the message's buffer alone; those of
// Gloo's collectives are out of reach. So the buffers are ours, and a thread watches: when the group is aborted it ends
// all waits, and when a peer of this machine is gone those for this peer.
//
// A message that arrives for memory that is not there any more ends the process (std::terminate on Gloo's thread). So
// before a failure leaves this file, all connections are broken.
#include "runtime/backend/gloo/gloo_context.h"

#include <ddp/error.h>

#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "base/hash.h"
#include "base/limits.h"
#include "base/sigpipe_guard.h"
#include "base/text.h"
#include "runtime/host/host_group.h"

namespace ddp {
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

[[noreturn]] void translate(const gloo::Exception& exception) {
  const std::string text = exception.what();
  if (text.find("Timed out") != std::string::npos || text.find("timeout") != std::string::npos) {
    throw Error(ErrorKind::timeout, "a rank did not take part in time (gloo: " + text + ")");
  }
  throw Error(ErrorKind::peer_lost, "the connection to another rank broke: that rank has ended (gloo: " + text + ")");
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

// On one machine every rank is reached over loopback. Which interface to use between machines is not decided here yet:
// GLOO_SOCKET_IFNAME names it, else the host name's address is taken, as in PyTorch.
gloo::transport::tcp::attr device_attributes(bool single_host) {
  gloo::transport::tcp::attr attributes;
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");  // NOLINT(concurrency-mt-unsafe)
  if (interface != nullptr && *interface != '\0') {
    attributes.iface = interface;
  } else if (single_host) {
    attributes.hostname = "127.0.0.1";
  }
  return attributes;
}

struct UnderWay {
  std::unique_ptr<Memory> memory;
  int peer = 0;
};

// The buffers that threads wait for, and the thread that ends those waits when they are in vain.
class Watch {
 public:
  explicit Watch(std::shared_ptr<HostGroup> host) : host_(std::move(host)), thread_([this] { run(); }) {}
  ~Watch() {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  void add(std::span<const UnderWay> messages) {
    const std::lock_guard lock(mutex_);
    for (const UnderWay& message : messages) waiting_[message.memory.get()] = {message.peer, looks_};
    if (parked_) changed_.notify_all();
  }
  void remove(Memory* buffer) {
    const std::lock_guard lock(mutex_);
    waiting_.erase(buffer);
  }

  void abort() {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
    end_waits_in_vain();
  }

  // Why a wait for `peer` was ended.
  [[noreturn]] void throw_reason(int peer) const {
    if (aborted()) throw Error(ErrorKind::aborted, "the process group was aborted");
    throw Error(ErrorKind::peer_lost, "rank " + std::to_string(peer) + " has ended, or left the group", peer);
  }
  bool aborted() const {
    const std::lock_guard lock(mutex_);
    return aborted_;
  }
  // The peer of this machine that is gone, if there is one.
  std::optional<int> lost() const {
    for (std::size_t peer = 0; host_ && peer < host_->size(); ++peer) {
      if (peer != host_->own() && host_->gone(peer)) return host_->rank_of(peer);
    }
    return std::nullopt;
  }

 private:
  // Times are counted in looks: in those Gloo's thread ran as well, if this one did.
  struct Waiting {
    int peer = 0;
    std::uint64_t since = 0;
  };
  struct Gone {
    std::uint64_t since = 0;
    std::uint64_t grace = 0;  // what it has sent before it went is still on its way
  };

  void look_after_peers() {
    for (std::size_t index = 0; host_ && index < host_->size(); ++index) {
      if (index == host_->own() || gone_.contains(host_->rank_of(index)) || !host_->gone(index)) continue;
      const bool left = host_->area(index).state == RankState::left;
      gone_[host_->rank_of(index)] = {looks_, left ? kLeftGrace : kLostGrace};
    }
  }

  // Again with every look: Gloo forgets to wake a thread that has just begun to wait.
  void end_waits_in_vain() {
    for (const auto& [memory, waiting] : waiting_) {
      const auto gone = gone_.find(waiting.peer);
      const bool in_vain =
          gone != gone_.end() && looks_ - std::max(gone->second.since, waiting.since) >= gone->second.grace;
      if (!aborted_ && !in_vain) continue;
      memory->abortWaitRecv();
      memory->abortWaitSend();
    }
  }

  void run() {
    std::unique_lock lock(mutex_);
    int idle_looks = 0;
    while (!closing_) {
      if (idle_looks > kIdleLooks) {
        parked_ = true;
        changed_.wait(lock, [this] { return closing_ || !waiting_.empty(); });
        parked_ = false;
        idle_looks = 0;
      }
      changed_.wait_for(lock, limits::kGlooLook, [this] { return closing_; });
      idle_looks = waiting_.empty() ? idle_looks + 1 : 0;
      if (waiting_.empty()) continue;
      ++looks_;
      look_after_peers();
      end_waits_in_vain();
    }
  }

  static constexpr int kIdleLooks = 150;
  static constexpr std::uint64_t kLostGrace = 2;
  static constexpr std::uint64_t kLeftGrace = 10;

  const std::shared_ptr<HostGroup> host_;  // may be none
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t looks_ = 0;
  std::map<Memory*, Waiting> waiting_;
  std::map<int, Gone> gone_;  // by rank
  bool aborted_ = false;
  bool parked_ = false;
  bool closing_ = false;
  std::thread thread_;
};

class Connections : public GlooContext {
 public:
  Connections(const BackendOptions& options, std::shared_ptr<ddp::Store> store)
      : context_(std::make_shared<gloo::rendezvous::Context>(options.rank, options.size)), watch_(options.host) {
    const auto attributes = device_attributes(options.host && options.host->holds_all());
    auto device = guarded([&] { return gloo::transport::tcp::CreateDevice(attributes); });
    context_->setTimeout(options.timeout);
    GlooStore gloo_store(make_prefix_store("gloo", std::move(store)));
    guarded([&] { context_->connectFullMesh(gloo_store, device); });
  }

  std::unique_ptr<GlooTransfers> start(std::span<const GlooMessage> outgoing, std::span<const GlooMessage> incoming,
                                       std::uint64_t tag, milliseconds timeout) override;

  void abort() override {
    watch_.abort();
    break_connections();
  }

  // Gloo breaks all connections when a message does not come in time: so this waits a moment for one that nobody sends.
  void break_connections() {
    if (context_->size == 1) return;
    try {
      guarded([&] {
        std::byte nothing{};
        auto memory = context_->createUnboundBuffer(&nothing, sizeof nothing);
        memory->recv((context_->rank + 1) % context_->size, kNobodysSlot);
        memory->waitRecv(milliseconds(1));
      });
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): that is what was wanted
    }
  }

  gloo::rendezvous::Context& context() { return *context_; }
  Watch& watch() { return watch_; }

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
  static constexpr std::uint64_t kNobodysSlot = ~std::uint64_t{0};

  std::shared_ptr<gloo::rendezvous::Context> context_;
  Watch watch_;
};

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
    if (done_) return;
    // Left behind by a failure elsewhere.
    connections_.break_connections();
    forget();
  }
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  void wait() override {
    const auto deadline = Clock::now() + timeout_;
    try {
      guarded([&] {
        for (const UnderWay& message : receives_) finish(message, deadline, &Memory::waitRecv);
        for (const UnderWay& message : sends_) finish(message, deadline, &Memory::waitSend);
      });
      done_ = true;
    } catch (const Error& error) {
      fail(error);
    }
  }

 private:
  using Wait = bool (Memory::*)(int*, milliseconds);

  void post(std::span<const GlooMessage> outgoing, std::span<const GlooMessage> incoming, std::uint64_t tag) {
    gloo::rendezvous::Context& context = connections_.context();
    // What is sent before the other side has said that it receives is sent by Gloo's thread, when that is said. Else
    // this thread would send, and Gloo's thread run in circles meanwhile, waiting for the connection's lock.
    for (const GlooMessage& message : outgoing) {
      sends_.push_back({context.createUnboundBuffer(message.data, message.bytes), message.peer});
      sends_.back().memory->send(message.peer, Connections::slot(tag, context.rank, message.peer, message.bytes));
    }
    for (const GlooMessage& message : incoming) {
      receives_.push_back({context.createUnboundBuffer(message.data, message.bytes), message.peer});
      receives_.back().memory->recv(message.peer, Connections::slot(tag, message.peer, context.rank, message.bytes));
    }
    connections_.watch().add(receives_);
    connections_.watch().add(sends_);
  }

  void finish(const UnderWay& message, Clock::time_point deadline, Wait wait_for) {
    if (connections_.watch().aborted()) connections_.watch().throw_reason(message.peer);
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    int peer = 0;
    const bool arrived = ((*message.memory).*wait_for)(&peer, std::max(left, milliseconds(1)));
    if (!arrived) connections_.watch().throw_reason(message.peer);
    connections_.watch().remove(message.memory.get());
  }

  void forget() {
    for (const UnderWay& message : receives_) connections_.watch().remove(message.memory.get());
    for (const UnderWay& message : sends_) connections_.watch().remove(message.memory.get());
    done_ = true;
  }

  [[noreturn]] void fail(const Error& error) {
    // While the buffers are there.
    connections_.break_connections();
    forget();
    if (connections_.watch().aborted()) throw Error(ErrorKind::aborted, "the process group was aborted");
    const std::optional<int> lost = connections_.watch().lost();
    if (error.kind() == ErrorKind::peer_lost && error.peer() == Error::kNobody && lost) {
      throw Error(ErrorKind::peer_lost, "rank " + std::to_string(*lost) + ": " + error.what(), *lost);
    }
    throw error;
  }

  Connections& connections_;
  const milliseconds timeout_;
  std::vector<UnderWay> receives_;
  std::vector<UnderWay> sends_;
  bool done_ = false;
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

}  // namespace ddp

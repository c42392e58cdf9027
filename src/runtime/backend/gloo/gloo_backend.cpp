// The only file that includes Gloo. Its exceptions become ours here.
//
// Gloo's rendezvous asks each rank to publish an address for every peer and to connect to all of them
// (connectFullMesh). Afterwards a collective is told apart by its tag. Ours is a hash of the call's number and of all
// that the ranks must have called alike, and for a message of its length too: Gloo ends the process
// (std::terminate on a thread of its own) when a message is longer than the buffer for it, and does not notice other
// differences. With such tags ranks that differ wait for each other, until the time-out tells them.
//
// A dead peer breaks the connection at once, a silent one ends in the time-out.
#include "runtime/backend/gloo/gloo_backend.h"

#include <ddp/error.h>

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>

#include "base/hash.h"
#include "base/sigpipe_guard.h"
#include "base/text.h"
#include "runtime/host/host_group.h"
#include "runtime/reduction/reduction.h"

namespace ddp {
namespace {

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
    throw;  // of our store
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

class GlooBackend : public Backend {
 public:
  GlooBackend(const BackendOptions& options, std::shared_ptr<ddp::Store> store)
      : context_(std::make_shared<gloo::rendezvous::Context>(options.rank, options.size)) {
    const auto attributes = device_attributes(options.host && options.host->holds_all());
    auto device = guarded([&] { return gloo::transport::tcp::CreateDevice(attributes); });
    context_->setTimeout(options.timeout);
    GlooStore gloo_store(make_prefix_store("gloo", std::move(store)));
    guarded([&] { context_->connectFullMesh(gloo_store, device); });
  }

  std::string_view name() const override { return "gloo"; }

  // Gloo breaks all connections, and wakes who waits for them, when a message does not come in time: so this waits a
  // moment for one that nobody sends. (Its closeConnections() does not wake anybody.)
  void abort() override {
    if (aborted_.exchange(true) || size() == 1) return;
    try {
      guarded([&] {
        std::byte nothing{};
        auto memory = context_->createUnboundBuffer(&nothing, sizeof nothing);
        memory->recv((rank() + 1) % size(), kNobodysSlot);
        memory->waitRecv(std::chrono::milliseconds(1));
      });
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): that is what was wanted
    }
  }

  void run(const Call& call) override {
    require_host(call.input);
    require_host(call.output);
    try {
      guarded([&] { run_on_host(call); });
    } catch (const Error&) {
      if (!aborted_) throw;
      throw Error(ErrorKind::aborted, "the process group was aborted");
    }
  }

 private:
  static constexpr std::size_t kBcubeBytes = std::size_t{4} << 20;
  static constexpr std::uint64_t kNobodysSlot = ~std::uint64_t{0};

  void run_on_host(const Call& call) {
    switch (call.operation) {
      case Operation::all_reduce:
        return all_reduce(call);
      case Operation::reduce:
        return reduce(call);
      case Operation::broadcast:
        return broadcast(call);
      case Operation::all_gather:
        if (call.output_parts.empty()) return all_gather(call);
        return exchange(
            call, [&](int) { return call.input; }, [&](int from) { return part(call.output_parts, from); });
      case Operation::gather:
        return exchange(
            call, [&](int to) { return to == call.peer ? call.input : ConstBuffer(); },
            [&](int from) { return rank() == call.peer ? output_part(call, from, size()) : Buffer(); });
      case Operation::scatter:
        return exchange(
            call, [&](int to) { return rank() == call.peer ? input_part(call, to, size()) : ConstBuffer(); },
            [&](int from) { return from == call.peer ? call.output : Buffer(); });
      case Operation::all_to_all:
        return exchange(
            call, [&](int to) { return input_part(call, to, size()); },
            [&](int from) { return output_part(call, from, size()); });
      case Operation::reduce_scatter:
        return reduce_scatter(call);
      case Operation::barrier:
        return barrier(call);
      case Operation::send:
        return transfer(call, rank(), call.peer, [&](auto& memory, std::uint64_t slot) {
          memory.send(call.peer, slot, 0, call.input.bytes());
          return memory.waitSend(call.timeout);
        });
      case Operation::recv:
        return transfer(call, call.peer, rank(), [&](auto& memory, std::uint64_t slot) {
          memory.recv(call.peer, slot, 0, call.output.bytes());
          return memory.waitRecv(call.timeout);
        });
    }
  }

  int rank() const { return context_->rank; }
  int size() const { return context_->size; }

  void all_reduce(const Call& call) {
    const Buffer& buffer = call.output;
    scale_own(buffer, call.op);
    if (size() == 1) return;
    gloo::AllreduceOptions options(context_);
    // Small messages are ruled by latency, large ones by bandwidth. The border is a guess until it is measured.
    options.setAlgorithm(buffer.bytes() <= kBcubeBytes ? gloo::AllreduceOptions::Algorithm::BCUBE
                                                       : gloo::AllreduceOptions::Algorithm::RING);
    with_element_type(buffer, [&](auto* elements) { options.setOutput(elements, buffer.count); });
    options.setReduceFunction(reduce_function(buffer.type, call.op));
    options.setTag(tag(call));
    options.setTimeout(call.timeout);
    gloo::allreduce(options);
  }

  // Gloo uses every rank's output for partial results, and only the root's is ours to use.
  void reduce(const Call& call) {
    Buffer buffer = call.output;
    std::vector<std::byte> copy;
    if (rank() != call.peer) {
      const auto* bytes = static_cast<const std::byte*>(buffer.data);
      copy.assign(bytes, bytes + buffer.bytes());
      buffer.data = copy.data();
    }
    scale_own(buffer, call.op);
    if (size() == 1) return;
    gloo::ReduceOptions options(context_);
    with_element_type(buffer, [&](auto* elements) { options.setOutput(elements, buffer.count); });
    options.setReduceFunction(reduce_function(buffer.type, call.op));
    options.setRoot(call.peer);
    options.setTag(tag(call));
    options.setTimeout(call.timeout);
    gloo::reduce(options);
  }

  void broadcast(const Call& call) {
    gloo::BroadcastOptions options(context_);
    options.setOutput(static_cast<char*>(call.output.data), call.output.bytes());
    options.setRoot(call.peer);
    options.setTag(tag(call));
    options.setTimeout(call.timeout);
    gloo::broadcast(options);
  }

  void all_gather(const Call& call) {
    gloo::AllgatherOptions options(context_);
    options.setInput(const_cast<char*>(static_cast<const char*>(call.input.data)), call.input.bytes());
    options.setOutput(static_cast<char*>(call.output.data), call.output.bytes());
    options.setTag(tag(call));
    options.setTimeout(call.timeout);
    gloo::allgather(options);
  }

  void barrier(const Call& call) {
    gloo::BarrierOptions options(context_);
    options.setTag(tag(call));
    options.setTimeout(call.timeout);
    gloo::barrier(options);
  }

  // Gloo has none: every rank sends each other its part and reduces what it gets, in rank order.
  void reduce_scatter(const Call& call) {
    const std::size_t bytes = call.output.bytes();
    std::vector<std::byte> received(bytes * static_cast<std::size_t>(size()));
    const auto place = [&](int from) {
      return Buffer(received.data() + bytes * static_cast<std::size_t>(from), call.output.count, call.output.type);
    };
    // Each rank's own factor is known to that rank alone, so what is sent has been multiplied.
    const double factor = factor_of(call.op, size());
    std::vector<std::vector<std::byte>> scaled(static_cast<std::size_t>(size()));
    const auto scaled_part = [&](int to) {
      const ConstBuffer part = input_part(call, to, size());
      if (factor == 1) return part;
      auto& memory = scaled[static_cast<std::size_t>(to)];
      memory.resize(part.bytes());
      const ReductionSource source{part.data, factor};
      void* destination = memory.data();
      ddp::reduce(part.type, ReduceOp::premultiplied_sum, {&source, 1}, {&destination, 1}, part.count);
      return ConstBuffer(memory.data(), part.count, part.type);
    };
    exchange(call, scaled_part, place);
    std::vector<ReductionSource> sources;
    for (int from = 0; from < size(); ++from) sources.push_back({place(from).data, 1});
    ddp::reduce(call.output.type, call.op, sources, {&call.output.data, 1}, call.output.count);
  }

  // Sends each rank what is for it and gets from each what it has for this one; nothing where that is empty.
  template <typename Give, typename Take>
  void exchange(const Call& call, Give&& give, Take&& take) {
    std::vector<std::unique_ptr<gloo::transport::UnboundBuffer>> sends;
    std::vector<std::unique_ptr<gloo::transport::UnboundBuffer>> receives;
    for (int step = 1; step < size(); ++step) {
      const int from = (rank() + size() - step) % size();
      const Buffer incoming = take(from);
      if (incoming.count == 0) continue;
      receives.push_back(context_->createUnboundBuffer(incoming.data, incoming.bytes()));
      receives.back()->recv(from, slot(call, from, rank(), incoming.bytes()));
    }
    for (int step = 1; step < size(); ++step) {
      const int to = (rank() + step) % size();
      const ConstBuffer outgoing = give(to);
      if (outgoing.count == 0) continue;
      sends.push_back(context_->createUnboundBuffer(const_cast<void*>(outgoing.data), outgoing.bytes()));
      sends.back()->send(to, slot(call, rank(), to, outgoing.bytes()));
    }
    const ConstBuffer own = give(rank());
    const Buffer target = take(rank());
    if (own.count > 0 && own.data != target.data) std::memmove(target.data, own.data, own.bytes());
    for (auto& memory : receives) memory->waitRecv(call.timeout);
    for (auto& memory : sends) memory->waitSend(call.timeout);
  }

  template <typename Function>
  void transfer(const Call& call, int from, int to, Function&& function) {
    const ConstBuffer subject = subject_of(call);
    if (subject.count == 0) return;
    auto memory = context_->createUnboundBuffer(const_cast<void*>(subject.data), subject.bytes());
    if (function(*memory, slot(call, from, to, subject.bytes()))) return;
    throw Error(ErrorKind::aborted, "the transfer was aborted");
  }

  static Buffer part(const std::vector<Buffer>& parts, int index) { return parts[static_cast<std::size_t>(index)]; }

  static void scale_own(const Buffer& buffer, ReduceOp op, int size) {
    const double factor = factor_of(op, size);
    if (factor != 1) scale(buffer, factor);
  }
  void scale_own(const Buffer& buffer, ReduceOp op) const { scale_own(buffer, op, size()); }

  // Gloo's function of two operands. What has a factor has been scaled before.
  static gloo::AllreduceOptions::Func reduce_function(DataType type, ReduceOp op) {
    return [type, op](void* out, const void* a, const void* b, std::size_t count) {
      const std::array<ReductionSource, 2> sources = {{{a, 1}, {b, 1}}};
      ddp::reduce(type, op, sources, {&out, 1}, count);
    };
  }

  // Of a collective of Gloo's.
  std::uint32_t tag(const Call& call) const {
    const std::uint64_t hash = mix({call.fingerprint, call.sequence});
    return static_cast<std::uint32_t>(hash ^ (hash >> 32));
  }

  // Of one message of ours. The upper byte keeps it apart from Gloo's own, which count from 1.
  std::uint64_t slot(const Call& call, int from, int to, std::size_t bytes) const {
    const bool collective = call.operation != Operation::send && call.operation != Operation::recv;
    const std::uint64_t what = collective ? call.fingerprint : static_cast<std::uint64_t>(subject_of(call).type);
    const std::uint64_t hash = mix({what, call.sequence, static_cast<std::uint64_t>(from),
                                    static_cast<std::uint64_t>(to), bytes, collective ? 1U : 0U});
    return (hash >> 8) | (std::uint64_t{0xd0} << 56);
  }

  static std::uint64_t mix(std::initializer_list<std::uint64_t> numbers) {
    base::Fnv1a64 hash;
    for (const std::uint64_t& number : numbers) hash.update(std::as_bytes(std::span(&number, 1)));
    return hash.value();
  }

  static void require_host(const ConstBuffer& buffer) {
    if (buffer.device == DeviceType::cpu) return;
    throw Error(ErrorKind::unavailable,
                "backend gloo works on host memory only; this buffer is in GPU memory. Use nccl.");
  }

  // Gloo wants a typed pointer for the element's size alone; the reduction is ours.
  template <typename Function>
  static void with_element_type(const Buffer& buffer, Function&& function) {
    switch (size_of(buffer.type)) {
      case 1:
        return function(static_cast<std::uint8_t*>(buffer.data));
      case 2:
        return function(static_cast<std::uint16_t*>(buffer.data));
      case 4:
        return function(static_cast<std::uint32_t*>(buffer.data));
      default:
        return function(static_cast<std::uint64_t*>(buffer.data));
    }
  }

  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::atomic<bool> aborted_ = false;
};

}  // namespace

std::unique_ptr<Backend> make_gloo_backend(const BackendOptions& options, std::shared_ptr<Store> store) {
  return std::make_unique<GlooBackend>(options, std::move(store));
}

}  // namespace ddp

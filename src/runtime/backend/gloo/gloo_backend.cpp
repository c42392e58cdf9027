// The only file that includes Gloo. Its exceptions become ours here.
//
// Gloo's rendezvous asks each rank to publish an address for every peer and to connect to all of them
// (connectFullMesh). Afterwards a collective is told apart by its tag; ours is a running number, equal on all ranks
// because the group calls in one order. Gloo has no abort: a dead peer breaks the connection at once, a silent one ends
// in the time-out.
#include "runtime/backend/gloo/gloo_backend.h"

#include <ddp/error.h>

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdlib>
#include <cstring>

#include "base/sigpipe_guard.h"
#include "base/text.h"
#include "runtime/backend/gloo/reduction.h"

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
    const auto attributes = device_attributes(all_on_one_host(options, *store));
    auto device = guarded([&] { return gloo::transport::tcp::CreateDevice(attributes); });
    context_->setTimeout(options.timeout);
    GlooStore gloo_store(make_prefix_store("gloo", std::move(store)));
    guarded([&] { context_->connectFullMesh(gloo_store, device); });
  }

  std::string_view name() const override { return "gloo"; }

  void all_reduce(const Buffer& buffer, ReduceOp op) override {
    require_host(buffer);
    if (op == ReduceOp::average) scale(buffer, 1.0 / context_->size);
    if (context_->size == 1) return;
    guarded([&] {
      gloo::AllreduceOptions options(context_);
      // Small messages are ruled by latency, large ones by bandwidth. The border is a guess until it is measured.
      options.setAlgorithm(buffer.bytes() <= kBcubeBytes ? gloo::AllreduceOptions::Algorithm::BCUBE
                                                         : gloo::AllreduceOptions::Algorithm::RING);
      with_element_type(buffer, [&](auto* elements) { options.setOutput(elements, buffer.count); });
      options.setReduceFunction(reduce_function(buffer.type, op));
      options.setTag(next_tag_++);
      gloo::allreduce(options);
    });
  }

  void broadcast(const Buffer& buffer, int root) override {
    require_host(buffer);
    guarded([&] {
      gloo::BroadcastOptions options(context_);
      options.setOutput(static_cast<char*>(buffer.data), buffer.bytes());
      options.setRoot(root);
      options.setTag(next_tag_++);
      gloo::broadcast(options);
    });
  }

  void all_gather(const Buffer& output, const Buffer& input) override {
    require_host(output);
    require_host(input);
    guarded([&] {
      gloo::AllgatherOptions options(context_);
      options.setInput(static_cast<char*>(input.data), input.bytes());
      options.setOutput(static_cast<char*>(output.data), output.bytes());
      options.setTag(next_tag_++);
      gloo::allgather(options);
    });
  }

  void barrier() override {
    guarded([&] {
      gloo::BarrierOptions options(context_);
      options.setTag(next_tag_++);
      gloo::barrier(options);
    });
  }

 private:
  static constexpr std::size_t kBcubeBytes = std::size_t{4} << 20;

  // Ranks of one host have the same boot id.
  static bool all_on_one_host(const BackendOptions& options, ddp::Store& store) {
    std::string boot_id(64, '\0');
    std::FILE* file = std::fopen("/proc/sys/kernel/random/boot_id", "re");
    boot_id.resize(file == nullptr ? 0 : std::fread(boot_id.data(), 1, boot_id.size(), file));
    if (file != nullptr) std::fclose(file);
    store.set("host/" + std::to_string(options.rank), boot_id);
    std::vector<std::string> keys;
    for (int rank = 0; rank < options.size; ++rank) keys.push_back("host/" + std::to_string(rank));
    for (const std::string& other : store.multi_get(keys)) {
      if (other != boot_id) return false;
    }
    return true;
  }

  static void require_host(const Buffer& buffer) {
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
      case 4:
        return function(static_cast<std::uint32_t*>(buffer.data));
      default:
        return function(static_cast<std::uint64_t*>(buffer.data));
    }
  }

  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::uint32_t next_tag_ = 0;
};

}  // namespace

std::unique_ptr<Backend> make_gloo_backend(const BackendOptions& options, std::shared_ptr<Store> store) {
  return std::make_unique<GlooBackend>(options, std::move(store));
}

}  // namespace ddp

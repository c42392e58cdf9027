// Tests libtorch modules on GPUs, on two ranks. Each case is a small training on the GPU in software
// (support/software_torch).
#include <ddp/ddp.h>
#include <ddp/libtorch.h>

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <torch/torch.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "interop/torch_gpu_cases.h"
#include "support/deadline.h"
#include "support/require.h"
#include "support/software_torch/device.h"

extern "C" int cuPointerGetAttribute(void* value, int attribute, unsigned long long pointer);

using namespace ddp::test;
using software_torch::Gate;
using Tensor = torch::Tensor;

namespace {

struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("hidden", hidden);
    register_module("norm", norm);
    register_module("head", head);
  }
  Tensor forward(const Tensor& x) { return head(torch::tanh(norm(hidden(x)))); }
  torch::nn::Linear hidden{3, 5};
  torch::nn::BatchNorm1d norm{5};
  torch::nn::Linear head{5, 1};
};
TORCH_MODULE(Net);

bool same(const Tensor& a, const Tensor& b) {
  return a.defined() && b.defined() && torch::equal(a.cpu(), b.cpu());
}

// Throws in the middle of backward.
struct Fails : torch::autograd::Function<Fails> {
  static Tensor forward(torch::autograd::AutogradContext*, Tensor x) { return x.clone(); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*, torch::autograd::variable_list) {
    throw std::runtime_error("no memory");
  }
};

// Trains a module on the GPU and its copy in host memory.
class Pair {
 public:
  explicit Pair(ddp::ProcessGroup& world, const ddp::DataParallelOptions& options = small_buckets())
      : gpu_(own_gpu(world)),
        on_host_(seeded_net()),
        on_gpu_(seeded_net()),
        host_net_(world, on_host_, options),
        gpu_net_(std::make_unique<Wrapper>(world, moved(on_gpu_, gpu_), options)),
        host_optimizer_(on_host_->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9)),
        gpu_optimizer_(on_gpu_->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9)) {
    torch::manual_seed(world.rank());
  }

  static ddp::DataParallelOptions small_buckets() {
    ddp::DataParallelOptions options;
    options.buckets.first_bytes = 1;
    options.buckets.bytes = 1;
    return options;
  }

  // Gives both modules the same samples. Without a step on the GPU, the next step there uses them.
  void host_step() {
    x_ = torch::randn({8, 3});
    host_optimizer_.zero_grad();
    loss_of(host_net_.forward(x_)).backward();
    host_optimizer_.step();
    x_on_gpu_ = x_.to(gpu_);
  }
  void gpu_step() {
    gpu_optimizer_.zero_grad();
    gpu_backward(gpu_forward());
    gpu_optimizer_.step();
  }
  Tensor gpu_forward() { return loss_of(gpu_net_->forward(x_on_gpu_)); }
  static void gpu_backward(const Tensor& loss) { loss.backward(); }
  // The first steps arrange the buckets and connect the ranks. Later ones are alike.
  void warm_up() {
    for (int i = 0; i < 4; ++i) both();
  }
  void both() {
    host_step();
    gpu_step();
  }

  void require_same(const std::string& when) {
    for (const auto& item : on_host_->named_parameters()) {
      const Tensor& other = on_gpu_->named_parameters()[item.key()];
      require(same(item.value().grad(), other.grad()),
              when + ": another gradient of " + item.key() + " than the host's");
      require(same(item.value(), other), when + ": other values of " + item.key() + " than the host's");
    }
    require(same(on_host_->norm->running_mean, on_gpu_->norm->running_mean), when + ": another buffer than the host's");
  }

  c10::DeviceIndex device() const { return gpu_.index(); }
  auto& gpu_net() { return *gpu_net_; }
  void unwrap() { gpu_net_.reset(); }
  Net& on_gpu() { return on_gpu_; }
  torch::optim::SGD& gpu_optimizer() { return gpu_optimizer_; }

 private:
  using Wrapper = ddp::libtorch::DistributedDataParallel<Net>;

  static Net seeded_net() {
    torch::manual_seed(7);
    return Net();
  }
  static Net& moved(Net& net, torch::Device device) {
    net->to(device);
    return net;
  }
  static Tensor loss_of(const Tensor& result) { return result.square().mean(); }

  const torch::Device gpu_;
  Net on_host_;
  Net on_gpu_;
  Wrapper host_net_;
  std::unique_ptr<Wrapper> gpu_net_;
  torch::optim::SGD host_optimizer_;
  torch::optim::SGD gpu_optimizer_;
  Tensor x_;
  Tensor x_on_gpu_;
};

// Makes work that is put on `later` from now on wait for the work on `earlier`.
void order(const c10::Stream& earlier, const c10::Stream& later) {
  c10::Event event(c10::kCUDA);
  event.record(earlier);
  event.block(later);
}

// A module on the GPU is trained like its copy in host memory.
void training(ddp::ProcessGroup& world) {
  Pair pair(world);
  for (int step = 0; step < 6; ++step) {
    pair.both();
    pair.require_same("step " + std::to_string(step));
  }
  pair.gpu_net().data_parallel().verify_parameters();
}

// The host puts a whole step on the stream while the stream stands. The GPU computes it later, in the right order.
void no_host_wait(ddp::ProcessGroup& world) {
  Pair pair(world);
  pair.warm_up();
  for (int step = 0; step < 3; ++step) {
    pair.host_step();
    Gate gate(software_torch::current_stream(pair.device()));
    const auto before = software_torch::host_calls();
    pair.gpu_step();
    const auto after = software_torch::host_calls();
    require(before.synchronizations == after.synchronizations, "the host waited for the GPU");
    require(before.event_queries == after.event_queries, "the host asked for an event");
    world.monitored_barrier();  // gives work that waits for nothing the time to run too early
    gate.open();
    pair.require_same("step " + std::to_string(step));
  }
}

// The streams of wrapping, of the forward pass, of backward() and of the optimizer may differ.
void several_streams(ddp::ProcessGroup& world) {
  const c10::Stream streams[] = {software_torch::current_stream(own_gpu(world).index()),
                                 software_torch::make_stream(own_gpu(world).index()),
                                 software_torch::make_stream(own_gpu(world).index())};
  for (const c10::Stream& wrapping : streams) {
    std::unique_ptr<Pair> pair;
    {
      const c10::StreamGuard guard(wrapping);
      pair = std::make_unique<Pair>(world);
    }
    order(wrapping, streams[0]);
    pair->warm_up();
    for (const c10::Stream& forward : streams) {
      for (const c10::Stream& backward : streams) {
        pair->host_step();
        pair->gpu_optimizer().zero_grad();
        order(streams[0], forward);
        // All streams stand, so that whatever does not wait runs too early.
        std::vector<std::unique_ptr<Gate>> gates;
        for (const c10::Stream& stream : {forward, backward}) gates.push_back(std::make_unique<Gate>(stream));
        Tensor loss;
        {
          const c10::StreamGuard guard(forward);
          loss = pair->gpu_forward();
        }
        order(forward, backward);
        {
          const c10::StreamGuard guard(backward);
          Pair::gpu_backward(loss);
        }
        order(backward, streams[0]);
        pair->gpu_optimizer().step();
        world.monitored_barrier();
        gates.back()->open();
        gates.front()->open();
        pair->require_same("streams " + std::to_string(wrapping.id()) + ", " + std::to_string(forward.id()) + ", " +
                           std::to_string(backward.id()));
      }
    }
  }
}

// Gradients add up in steps without synchronisation, and exceptions in backward leave no trace.
void interrupted_steps(ddp::ProcessGroup& world) {
  Pair pair(world);
  pair.warm_up();
  auto& net = pair.gpu_net();
  const auto gradient = [&] { return pair.on_gpu()->head->bias.grad().clone(); };
  pair.host_step();
  net->zero_grad();
  pair.gpu_forward().backward();
  const Tensor mean = gradient();
  net->zero_grad();
  {
    const ddp::NoSync local = net.no_sync();
    pair.gpu_forward().backward();
    pair.gpu_forward().backward();
  }
  const Tensor twice_own = gradient();
  ddp::libtorch::all_reduce(world, twice_own, ddp::ReduceOp::average).wait();
  require(torch::allclose(twice_own.cpu(), 2 * mean.cpu()), "no_sync: not the sum of a rank's own gradients");
  net->zero_grad();
  const Tensor failing = Fails::apply(pair.on_gpu()->hidden->bias).sum();  // backward reaches what is oldest last
  const Tensor loss = pair.gpu_forward() + failing;
  // On rank 0, the reductions of the step that fails come after zero_grad(), because rank 1 is late.
  const c10::Stream stream = software_torch::current_stream(pair.device());
  std::unique_ptr<Gate> gate;
  if (world.rank() == 1) gate = std::make_unique<Gate>(stream);
  bool failed = false;
  try {
    loss.backward();
  } catch (const std::runtime_error&) {
    failed = true;
  }
  require(failed, "backward did not fail");
  net->zero_grad();
  if (world.rank() == 0) software_torch::synchronize(stream);
  world.monitored_barrier();
  if (gate) gate->open();
  pair.gpu_forward().backward();
  require(same(gradient(), mean), "another gradient after a step that failed");
}

// A module's tensors may get other memory. The runtime then continues on the memory that it knows.
void other_memory(ddp::ProcessGroup& world) {
  Pair pair(world);
  pair.warm_up();
  auto& norm = pair.on_gpu()->norm;
  norm->weight.set_data(norm->weight.detach().clone());
  norm->running_mean.set_data(norm->running_mean.clone());
  pair.both();
  pair.require_same("after set_data");
}

// The module and the gradients outlive the wrapper. Their memory is not freed while kernels may use it, even if nothing
// refers to it any longer.
void outlived(ddp::ProcessGroup& world) {
  const auto is_gpu_memory = [](const void* place) {
    int device = 0;
    constexpr int kDeviceOrdinal = 9;
    return cuPointerGetAttribute(&device, kDeviceOrdinal, reinterpret_cast<unsigned long long>(place)) == 0;
  };
  Pair pair(world);
  pair.warm_up();
  pair.unwrap();
  const void* place = pair.on_gpu()->head->bias.grad().data_ptr();
  require(is_gpu_memory(place), "the gradient is not in GPU memory");
  std::jthread dropping;
  Gate gate(software_torch::current_stream(pair.device()));
  pair.gpu_optimizer().step();
  const int before = software_torch::host_calls().event_queries;
  dropping = std::jthread([&] {
    for (Tensor& parameter : pair.on_gpu()->parameters()) parameter.mutable_grad().reset();
  });
  require(eventually([&] { return software_torch::host_calls().event_queries > before; }),
          "the end of the gradients does not wait for the stream");
  require(is_gpu_memory(place), "the gradients' memory was freed while a kernel waited to use it");
  gate.open();
  dropping.join();
}

void refused(ddp::ProcessGroup& world) {
  const torch::Device own = own_gpu(world);
  const torch::Device other(torch::kCUDA, static_cast<c10::DeviceIndex>(1 - own.index()));
  const auto wrap = [&](torch::Device first, torch::Device second) {
    Net net;
    net->hidden->to(first);
    net->head->to(second);
    net->norm->to(first);
    ddp::libtorch::DistributedDataParallel<Net> reducer(world, net);
  };
  if (world.backend() != "nccl") {
    expect("is in GPU memory, which backend gloo cannot reach. Use nccl", [&] { wrap(own, own); });
    expect("GPU memory", [&] { (void)ddp::libtorch::all_reduce(world, torch::zeros({2}, own)); });
    return;
  }
  expect("'hidden.weight' is on " + other.str() + ", but this rank uses " + own.str(), [&] { wrap(other, other); });
  expect("'head.weight' is on " + other.str(), [&] { wrap(own, other); });
  expect("Put all of them on the GPU", [&] { wrap(own, torch::kCPU); });
  expect("the tensor is on " + other.str() + ", but this rank uses " + own.str(),
         [&] { (void)ddp::libtorch::all_reduce(world, torch::zeros({2}, other)); });
}

}  // namespace

int main() {
  try {
    torch::set_num_threads(1);
    ddp::ProcessGroup world = ddp::init();
    std::vector<TorchCase> cases = {{"refused", [&] { refused(world); }}};
    if (world.backend() == "nccl") {
      cases = {
          {"refused", [&] { refused(world); }},
          {"training", [&] { training(world); }},
          {"no host wait", [&] { no_host_wait(world); }},
          {"several streams", [&] { several_streams(world); }},
          {"interrupted steps", [&] { interrupted_steps(world); }},
          {"other memory", [&] { other_memory(world); }},
          {"outlived", [&] { outlived(world); }},
          {"tensors in order", [&] { tensors_in_order(world); }},
          {"temporary tensors", [&] { temporary_tensors(world); }},
      };
    }
    if (!all_pass(world, cases)) return 1;
    if (world.rank() == 0) std::printf("%s: %zu cases\n", world.backend().c_str(), cases.size());
    world.finalize();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

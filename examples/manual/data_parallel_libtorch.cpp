// Extracts of docs/how-to/data-parallel-training.md and docs/tutorials/libtorch.md: the same with a module of libtorch.
//
//   ddplaunch --nproc-per-node=2 manual_data_parallel_libtorch
#include <ddp/ddp.h>
#include <ddp/libtorch.h>

#include <torch/torch.h>

#include <cstdio>
#include <memory>
#include <numeric>
#include <sstream>
#include <vector>

struct NetImpl : torch::nn::Module {
  torch::nn::Linear line = register_module("line", torch::nn::Linear(1, 1));
  torch::Tensor forward(const torch::Tensor& x) { return line->forward(x); }
};
TORCH_MODULE(Net);

void train_on_gpu(const ddp::ProcessGroup& world) {
  // [gpu]
  const torch::Device gpu(torch::kCUDA, static_cast<c10::DeviceIndex>(world.device().index));
  Net module;
  module->to(gpu);
  ddp::libtorch::DistributedDataParallel net(world, module);
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  for (int step = 0; step < 200; ++step) {
    const torch::Tensor x = torch::rand({32, 1}, gpu);
    optimizer.zero_grad();
    torch::mse_loss(net.forward(x), 3 * x - 1).backward();
    optimizer.step();
  }
  // [/gpu]
}

// Returns the object for a program whose optimizer and random generator are libtorch's.
std::unique_ptr<ddp::Rehearsal> rehearse(ddp::libtorch::DistributedDataParallel<Net>& net,
                                         torch::optim::SGD& optimizer) {
  // [rehearsal]
  const auto save = [&optimizer] {
    std::ostringstream saved;
    torch::save(optimizer, saved);
    torch::Generator random = at::globalContext().defaultGenerator(torch::kCPU);
    return [&optimizer, random, state = random.get_state(), text = saved.str()]() mutable {
      std::istringstream stream(text);
      optimizer.state().clear();
      torch::load(optimizer, stream);
      random.set_state(state);
    };
  };
  auto rehearsal = std::make_unique<ddp::Rehearsal>(net.data_parallel(), save);
  // [/rehearsal]
  return rehearsal;
}

// Trains on 20 samples in batches of 8, and returns the weight.
double train_on_batches(const ddp::ProcessGroup& world, bool is_rehearsed) {
  torch::manual_seed(7);
  ddp::libtorch::DistributedDataParallel net(world, Net());
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  std::vector<float> dataset(static_cast<std::size_t>(20 * world.size()));
  std::iota(dataset.begin(), dataset.end(), 0.0F);
  const ddp::DistributedSampler sampler(std::ssize(dataset), world);
  const auto rehearsal = rehearse(net, optimizer);
  for (const auto& batch : ddp::DataLoader(
           dataset, sampler, {.batch_size = 8, .rehearse_last_batch = is_rehearsed ? rehearsal.get() : nullptr})) {
    const torch::Tensor x =
        torch::rand({std::ssize(batch.samples), 1}) + torch::tensor(batch.samples).unsqueeze(1) / 20;
    optimizer.zero_grad();
    torch::mse_loss(net.forward(x), 3 * x - 1).backward();
    optimizer.step();
  }
  return net->line->weight.item<double>();
}

int main() {
  ddp::ProcessGroup world = ddp::init();
  torch::manual_seed(world.rank());
  // [training]
  ddp::libtorch::DistributedDataParallel net(world, Net());
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  for (int step = 0; step < 200; ++step) {
    const torch::Tensor x = torch::rand({32, 1});
    optimizer.zero_grad();
    torch::mse_loss(net.forward(x), 3 * x - 1).backward();
    optimizer.step();
  }
  // [/training]
  net.data_parallel().verify_parameters();
  if (world.device().type == ddp::DeviceType::cuda && torch::cuda::is_available()) train_on_gpu(world);
  if (train_on_batches(world, false) != train_on_batches(world, true)) return 1;
  if (world.rank() == 0) std::printf("slope %.2f\n", net->line->weight.item<double>());
}

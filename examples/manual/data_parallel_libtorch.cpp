// Extracts of docs/how-to/data-parallel-training.md and docs/tutorials/libtorch.md: the same with a module of libtorch.
//
//   ddplaunch --nproc-per-node=2 manual_data_parallel_libtorch
#include <ddp/ddp.h>
#include <ddp/libtorch.h>

#include <torch/torch.h>

#include <cstdio>

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
  if (world.rank() == 0) std::printf("slope %.2f\n", net->line->weight.item<double>());
}

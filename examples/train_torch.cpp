// A libtorch module trained on all ranks: y = A x is learnt from noisy samples, each rank with its own.
//
//   ddplaunch --nproc-per-node=2 train_torch
#include <ddp/ddp.h>
#include <ddp/torch.h>

#include <torch/torch.h>

#include <cstdio>

namespace {

void train() {
  ddp::ProcessGroup world = ddp::init();
  torch::manual_seed(world.rank());  // ranks differ on purpose: their first weights and their data
  ddp::torch::DistributedDataParallel net(world, torch::nn::Linear(8, 3));
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  const torch::Tensor truth = torch::arange(24, torch::kFloat).reshape({3, 8}) / 24;

  double loss_value = 0;
  for (int step = 0; step < 300; ++step) {
    const torch::Tensor x = torch::randn({16, 8});
    const torch::Tensor y = x.matmul(truth.t()) + 0.01 * torch::randn({16, 3});
    optimizer.zero_grad();
    const torch::Tensor loss = torch::mse_loss(net->forward(x), y);
    loss.backward();
    optimizer.step();
    loss_value = loss.item<double>();
  }
  const auto hash = static_cast<unsigned long long>(net.data_parallel().verify_parameters());
  const double error = (net->weight - truth).abs().max().item<double>();
  if (world.rank() == 0)
    std::printf("loss %.5f  largest error of a weight %.4f  hash %016llx on all ranks\n", loss_value, error, hash);
  if (error > 0.05) throw std::runtime_error("the weights were not learnt");
}

}  // namespace

int main() {
  try {
    train();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_torch: %s\n", error.what());
    return 1;
  }
}

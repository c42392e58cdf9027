// Two ranks train a linear module for one step.
#include <ddp/ddp.h>
#include <ddp/libtorch.h>

#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <cstdio>

int main() {
  ddp::ProcessGroup world = ddp::init();
  ddp::libtorch::DistributedDataParallel net(world, torch::nn::Linear(2, 1));
  net.forward(torch::full({1, 2}, static_cast<double>(world.rank()))).sum().backward();
  const double gradient = net->weight.grad()[0][0].item<double>();
  if (world.rank() == 0) std::printf("mean gradient: %.1f\n", gradient);
  return 0;
}

// The program of the README: a model of one array, trained on all ranks.
// [program]
#include <ddp/ddp.h>

#include <cstdio>
#include <vector>

int main() {
  ddp::ProcessGroup world = ddp::init();  // all ranks of the job; one rank without ddplaunch
  std::vector<float> weight(64);
  ddp::DistributedDataParallel model(world, {{"weight", weight, {64}}});
  ddp::DistributedSampler sampler(1000, world);  // a share of 1000 samples
  for (const auto index : sampler.indices()) {
    model.zero_gradients();
    for (float& g : model.gradient<float>(0)) g = 0.001F * static_cast<float>(index);  // your backward pass
    model.mark_ready(0);  // the all-reduce of this parameter starts here
    model.finish();       // the gradients are now the mean over all ranks
    for (std::size_t i = 0; i < weight.size(); ++i) weight[i] -= 0.01F * model.gradient<float>(0)[i];
  }
  if (world.rank() == 0) std::printf("ranks: %d, weight %.3f\n", world.size(), static_cast<double>(weight[0]));
}
// [/program]

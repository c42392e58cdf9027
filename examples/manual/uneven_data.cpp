// Code of docs/how-to/uneven-data.md: samplers whose shares are equal.
#include <ddp/ddp.h>

#include <cstdint>
#include <cstdio>
#include <vector>

int main() {
  ddp::ProcessGroup world = ddp::init();
  {
    // [pad]
    ddp::DistributedSampler sampler(8607, world);
    // [/pad]
    std::printf("%d\n", static_cast<int>(sampler.size()));
  }
  {
    // [drop]
    ddp::DistributedSampler sampler(8607, world, {.drop_last = true});
    // [/drop]
    std::printf("%d\n", static_cast<int>(sampler.size()));
  }
  // [evaluate]
  ddp::DistributedSampler shares(8607, world, {.shuffle = false});
  std::vector<std::int64_t> indices = shares.indices();
  indices.resize(indices.size() - static_cast<std::size_t>(shares.padding()));
  // [/evaluate]
  std::printf("%zu\n", indices.size());
}

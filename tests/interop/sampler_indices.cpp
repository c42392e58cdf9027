// Prints a line of the indices of ddp::DistributedSampler for each line of its input: SIZE WORLD RANK EPOCH SEED
// DROP_LAST SHUFFLE.
#include <ddp/distributed_sampler.h>

#include <cstdio>
#include <iostream>

int main() {
  std::int64_t size = 0;
  int world = 0;
  int rank = 0;
  std::int64_t epoch = 0;
  std::uint64_t seed = 0;
  int drop_last = 0;
  int shuffle = 0;
  while (std::cin >> size >> world >> rank >> epoch >> seed >> drop_last >> shuffle) {
    ddp::DistributedSampler sampler(size, rank, world,
                                    {.shuffle = shuffle != 0, .seed = seed, .drop_last = drop_last != 0});
    sampler.set_epoch(epoch);
    for (const std::int64_t index : sampler.indices()) std::printf("%lld ", static_cast<long long>(index));
    std::puts("");
  }
}

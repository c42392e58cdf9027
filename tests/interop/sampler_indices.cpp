// Prints a sampler's indices, for comparison with PyTorch's: n world rank epoch seed drop_last shuffle.
#include <ddp/distributed_sampler.h>

#include <cstdio>
#include <cstdlib>

int main(int, char** argv) {
  const auto number = [&](int i) { return std::strtoll(argv[i], nullptr, 10); };
  ddp::DistributedSampler sampler(
      number(1), static_cast<int>(number(3)), static_cast<int>(number(2)),
      {.shuffle = number(7) != 0, .seed = static_cast<std::uint64_t>(number(5)), .drop_last = number(6) != 0});
  sampler.set_epoch(number(4));
  for (const std::int64_t index : sampler.indices()) std::printf("%lld\n", static_cast<long long>(index));
  return 0;
}

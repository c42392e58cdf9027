// DistributedSampler: which samples of a data set this rank sees in an epoch. The same indices as PyTorch's
// torch.utils.data.DistributedSampler, permutation included.
#pragma once

#include <ddp/process_group.h>

#include <cstdint>
#include <vector>

namespace ddp {

struct SamplerOptions {
  bool shuffle = true;
  std::uint64_t seed = 0;  // the same on all ranks
  bool drop_last = false;  // false: the order is repeated from its start until all ranks have equally many
};

// With N samples and W ranks, rank r takes positions r, r+W, r+2W, … of the epoch's order. Pure; copyable.
//
//   ddp::DistributedSampler sampler(dataset.size(), world);
//   for (int epoch = 0; epoch < 10; ++epoch) {
//     sampler.set_epoch(epoch);            // without it every epoch has the same order
//     for (std::int64_t index : sampler.indices()) use(dataset[index]);
//   }
class DDP_EXPORT DistributedSampler {
 public:
  // Throws invalid_argument if there is no sample, rank is not in [0, world_size), or drop_last leaves a rank none.
  DistributedSampler(std::int64_t dataset_size, int rank, int world_size, SamplerOptions options = {});
  DistributedSampler(std::int64_t dataset_size, const ProcessGroup& group, SamplerOptions options = {})
      : DistributedSampler(dataset_size, group.rank(), group.size(), options) {}

  void set_epoch(std::int64_t epoch) { epoch_ = epoch; }

  // Samples of this rank in an epoch; the same on every rank.
  std::int64_t size() const { return samples_per_rank_; }

  // This rank's indices into the data set, in order.
  std::vector<std::int64_t> indices() const;

 private:
  std::int64_t dataset_size_;
  int rank_;
  int world_size_;
  SamplerOptions options_;
  std::int64_t samples_per_rank_;
  std::int64_t epoch_ = 0;
};

// 0 … n-1 in the order of PyTorch's torch.randperm(n) under torch.manual_seed(seed): Mersenne Twister seeded with the
// low 32 bits, then for i = 0 … n-2 element i is swapped with element i + next() mod (n - i). PyTorch draws differently
// from n = 2^32/20 on; throws invalid_argument there.
DDP_EXPORT std::vector<std::int64_t> random_permutation(std::int64_t n, std::uint64_t seed);

}  // namespace ddp

// DistributedSampler: which samples of a data set this rank sees in an epoch. The same indices as PyTorch's
// torch.utils.data.DistributedSampler, permutation included; and, unlike there, a place in the epoch to resume from.
#pragma once

#include <ddp/process_group.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

struct SamplerOptions {
  bool shuffle = true;
  std::uint64_t seed = 0;  // the same on all ranks
  bool drop_last = false;  // false: the order is repeated from its start until all ranks have equally many
};

// Where a training stands in its data: for checkpoints. A value, the same on all ranks. It belongs to one data set,
// `shuffle` and `seed`, and to any number of ranks.
struct SamplerState {
  std::int64_t epoch = 0;
  std::int64_t consumed = 0;  // samples of the epoch, by all ranks together

  bool operator==(const SamplerState&) const = default;
};

// "epoch 3 consumed 1200".
DDP_EXPORT std::string to_string(const SamplerState& state);

// The reverse. Throws `corrupt` for any other text.
DDP_EXPORT SamplerState parse_sampler_state(std::string_view text);

// With N samples and W ranks, rank r takes positions r, r+W, r+2W, … of the epoch's order; of an epoch of which c
// samples are consumed, positions c+r, c+r+W, c+r+2W, …. For a run that resumes with as many ranks these are the rest
// of its indices; with another number of ranks every sample that is left still goes to exactly one rank. Either way
// what is left is padded or cut as `drop_last` says. Copyable; one thread.
//
//   ddp::DistributedSampler sampler(dataset.size(), world);
//   for (int epoch = 0; epoch < 10; ++epoch) {
//     sampler.set_epoch(epoch);            // without it every epoch has the same order
//     for (std::int64_t index : sampler.indices()) use(dataset[index]);
//   }
//
// The same, resumable; data_loader.h makes the batches:
//
//   if (resumed) sampler.restore(saved);
//   for (std::int64_t epoch = sampler.state().epoch; epoch < 10; sampler.set_epoch(++epoch)) {
//     for (const auto& batch : loader) {
//       …                                          // one step
//       sampler.consume(std::ssize(batch.indices));
//       if (…) save(sampler.state());
//     }
//   }
class DDP_EXPORT DistributedSampler {
 public:
  // Throws invalid_argument if there is no sample, rank is not in [0, world_size), or drop_last leaves a rank none.
  DistributedSampler(std::int64_t dataset_size, int rank, int world_size, SamplerOptions options = {});
  DistributedSampler(std::int64_t dataset_size, const ProcessGroup& group, SamplerOptions options = {})
      : DistributedSampler(dataset_size, group.rank(), group.size(), options) {}

  // Begins an epoch, also one that had begun: nothing of it is consumed.
  void set_epoch(std::int64_t epoch) { state_ = {.epoch = epoch, .consumed = 0}; }

  // This rank, and so every rank, has consumed its next `samples` indices. After each step, with what the step used:
  // what a loader has only fetched is not consumed. Throws invalid_argument if fewer are left.
  void consume(std::int64_t samples);

  SamplerState state() const { return state_; }

  // Goes on from there; the state may come from a run with another number of ranks. Throws `mismatch` if it does not
  // fit this data set.
  void restore(const SamplerState& state);

  std::int64_t dataset_size() const { return dataset_size_; }

  // Samples of this rank that are left of the epoch; the same on every rank.
  std::int64_t size() const;

  // This rank's indices into the data set that are left of the epoch, in order. Empty if none is.
  std::vector<std::int64_t> indices() const;

  // How many of this rank's last indices are padding, which repeats samples that are another position's already: 0 or
  // 1. An evaluation that counts each sample once leaves them out.
  std::int64_t padding() const;

 private:
  std::int64_t dataset_size_;
  int rank_;
  int world_size_;
  SamplerOptions options_;
  SamplerState state_;
};

// 0 … n-1 in the order of PyTorch's torch.randperm(n) under torch.manual_seed(seed): Mersenne Twister seeded with the
// low 32 bits, then for i = 0 … n-2 element i is swapped with element i + next() mod (n - i). PyTorch draws differently
// from n = 2^32/20 on; throws invalid_argument there.
DDP_EXPORT std::vector<std::int64_t> random_permutation(std::int64_t n, std::uint64_t seed);

}  // namespace ddp

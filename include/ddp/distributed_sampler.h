// DistributedSampler determines which samples of a data set this rank sees in an epoch. It yields the same indices as
// PyTorch's torch.utils.data.DistributedSampler, including the permutation. Unlike PyTorch's, it has a position in the
// epoch from which a run can resume.
#pragma once

#include <ddp/process_group.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

struct SamplerOptions {
  bool shuffle = true;
  std::uint64_t seed = 0;  // must be the same on all ranks
  bool drop_last = false;  // if false, the order is repeated from its start until all ranks have equally many
};

// Records the position of a training run in its data, for checkpoints. This is a value type, which is the same on all
// ranks. It belongs to one data set, `shuffle` and `seed`, and to any number of ranks.
struct SamplerState {
  std::int64_t epoch = 0;
  std::int64_t consumed = 0;  // samples of the epoch that all ranks together have consumed

  bool operator==(const SamplerState&) const = default;
};

// Returns text such as "epoch 3 consumed 1200".
DDP_EXPORT std::string to_string(const SamplerState& state);

// Parses the text that to_string() returns. Throws `corrupt` for any other text.
DDP_EXPORT SamplerState parse_sampler_state(std::string_view text);

// With N samples and W ranks, rank r takes positions r, r+W, r+2W, … of the epoch's order. If c samples of the epoch
// are consumed, it takes positions c+r, c+r+W, c+r+2W, …. For a run that resumes with as many ranks these are the rest
// of its indices. With another number of ranks, every remaining sample is still assigned to exactly one rank. In both
// cases the remaining samples are padded or cut as `drop_last` says. It is copyable. Use it from one thread.
//
//   ddp::DistributedSampler sampler(dataset.size(), world);
//   for (int epoch = 0; epoch < 10; ++epoch) {
//     sampler.set_epoch(epoch);            // without it every epoch has the same order
//     for (std::int64_t index : sampler.indices()) use(dataset[index]);
//   }
//
// This example is resumable; data_loader.h makes the batches:
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
  // Throws invalid_argument if there is no sample, if rank is not in [0, world_size), or if drop_last leaves a rank no
  // sample.
  DistributedSampler(std::int64_t dataset_size, int rank, int world_size, SamplerOptions options = {});
  DistributedSampler(std::int64_t dataset_size, const ProcessGroup& group, SamplerOptions options = {})
      : DistributedSampler(dataset_size, group.rank(), group.size(), options) {}

  // Begins an epoch from its start, even if that epoch had already begun.
  void set_epoch(std::int64_t epoch) { state_ = {.epoch = epoch, .consumed = 0}; }

  // Records that this rank, and therefore every rank, has consumed its next `samples` indices. Call it after each step
  // with the number of samples that the step used, because prefetched samples are not consumed. Throws invalid_argument
  // if fewer are left.
  void consume(std::int64_t samples);

  SamplerState state() const { return state_; }

  // Continues from `state`, which may come from a run with another number of ranks. Throws `mismatch` if it does not
  // fit this data set.
  void restore(const SamplerState& state);

  std::int64_t dataset_size() const { return dataset_size_; }

  // Returns the number of this rank's samples that are left in the epoch. It is the same on every rank.
  std::int64_t size() const;

  // Returns this rank's remaining indices into the data set for this epoch, in order. The result is empty if none is
  // left.
  std::vector<std::int64_t> indices() const;

  // Returns how many of this rank's last indices are padding: 0 or 1. Padding repeats samples that another position
  // already has. An evaluation that counts each sample once must leave it out.
  std::int64_t padding() const;

 private:
  std::int64_t dataset_size_;
  int rank_;
  int world_size_;
  SamplerOptions options_;
  SamplerState state_;
};

// Returns 0 … n-1 in the order of PyTorch's torch.randperm(n) under torch.manual_seed(seed). A Mersenne Twister is
// seeded with the low 32 bits. Then for i = 0 … n-2 element i is swapped with element i + next() mod (n - i). From n =
// 2^32/20 on, PyTorch draws differently, and this function throws invalid_argument.
DDP_EXPORT std::vector<std::int64_t> random_permutation(std::int64_t n, std::uint64_t seed);

}  // namespace ddp

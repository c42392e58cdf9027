#include <ddp/distributed_sampler.h>
#include <ddp/error.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

#include "base/text.h"

namespace ddp {

namespace {

void require_sampler(bool condition, const std::string& message) {
  if (!condition) throw Error(ErrorKind::invalid_argument, "DistributedSampler: " + message);
}

std::int64_t samples_per_rank(std::int64_t samples, int world_size, bool drop_last) {
  return samples / world_size + (!drop_last && samples % world_size != 0 ? 1 : 0);
}

}  // namespace

std::string to_string(const SamplerState& state) {
  return "epoch " + std::to_string(state.epoch) + " consumed " + std::to_string(state.consumed);
}

SamplerState parse_sampler_state(std::string_view text) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const std::vector<std::string> words = base::split(text, ' ');
  if (words.size() == 4 && words[0] == "epoch" && words[2] == "consumed") {
    const auto epoch = base::parse_integer(words[1], std::numeric_limits<std::int64_t>::min(), kMost);
    const auto consumed = base::parse_integer(words[3], 0, kMost);
    if (epoch && consumed) return {.epoch = *epoch, .consumed = *consumed};
  }
  throw Error(ErrorKind::corrupt,
              "'" + std::string(text) + "' is not the state of a sampler, which has the form 'epoch 3 consumed 1200'");
}

DistributedSampler::DistributedSampler(std::int64_t dataset_size, int rank, int world_size, SamplerOptions options)
    : dataset_size_(dataset_size), rank_(rank), world_size_(world_size), options_(options) {
  require_sampler(dataset_size > 0, "the data set has no samples");
  require_sampler(world_size > 0 && rank >= 0 && rank < world_size,
                  "rank " + std::to_string(rank) + " is not in a world of " + std::to_string(world_size));
  require_sampler(size() > 0, std::to_string(dataset_size) + " samples for " + std::to_string(world_size) +
                                  " ranks leave some ranks without a sample. Use drop_last = false, or fewer ranks.");
}

void DistributedSampler::consume(std::int64_t samples) {
  require_sampler(samples >= 0 && samples <= size(),
                  "consume(" + std::to_string(samples) + "), but this rank has " + base::counted(size(), "sample") +
                      " left of epoch " + std::to_string(state_.epoch) +
                      ". Call set_epoch() at the beginning of each epoch, and consume() once for each batch.");
  // The padding consists of samples that have been counted before.
  state_.consumed = std::min(dataset_size_, state_.consumed + samples * world_size_);
}

void DistributedSampler::restore(const SamplerState& state) {
  if (state.consumed < 0 || state.consumed > dataset_size_) {
    throw Error(ErrorKind::mismatch, "DistributedSampler: '" + to_string(state) + "' does not fit a data set of " +
                                         std::to_string(dataset_size_) +
                                         " samples. Was it saved by a run on other data?");
  }
  state_ = state;
}

std::int64_t DistributedSampler::size() const {
  return samples_per_rank(dataset_size_ - state_.consumed, world_size_, options_.drop_last);
}

std::int64_t DistributedSampler::padding() const {
  const std::int64_t last = state_.consumed + (size() - 1) * world_size_ + rank_;
  return size() > 0 && last >= dataset_size_ ? 1 : 0;
}

std::vector<std::int64_t> DistributedSampler::indices() const {
  const std::int64_t count = size();
  if (count == 0) return {};
  std::vector<std::int64_t> order;
  if (options_.shuffle) {
    order = random_permutation(dataset_size_, options_.seed + static_cast<std::uint64_t>(state_.epoch));
  } else {
    order.resize(static_cast<std::size_t>(dataset_size_));
    std::iota(order.begin(), order.end(), std::int64_t{0});
  }
  // Position p of the padded order is order[p mod N]: the order is repeated from its start as often as needed.
  std::vector<std::int64_t> own;
  own.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t position = state_.consumed + i * world_size_ + rank_;
    own.push_back(order[static_cast<std::size_t>(position % dataset_size_)]);
  }
  return own;
}

std::vector<std::int64_t> random_permutation(std::int64_t n, std::uint64_t seed) {
  constexpr std::int64_t kPyTorchSwitches = (std::int64_t{1} << 32) / 20;
  if (n < 0 || n >= kPyTorchSwitches) {
    throw Error(ErrorKind::invalid_argument, "random_permutation of " + std::to_string(n) + " elements (0 to " +
                                                 std::to_string(kPyTorchSwitches - 1) + " are possible)");
  }
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::mt19937 generator(static_cast<std::uint32_t>(seed));
  for (std::int64_t i = 0; i + 1 < n; ++i) {
    const std::int64_t j = i + static_cast<std::int64_t>(generator()) % (n - i);
    std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(j)]);
  }
  return order;
}

}  // namespace ddp

#include <ddp/distributed_sampler.h>
#include <ddp/error.h>

#include <numeric>
#include <random>
#include <utility>

namespace ddp {

namespace {

std::int64_t samples_per_rank(std::int64_t dataset_size, int world_size, bool drop_last) {
  if (drop_last) return dataset_size / world_size;
  return (dataset_size + world_size - 1) / world_size;
}

}  // namespace

DistributedSampler::DistributedSampler(std::int64_t dataset_size, int rank, int world_size, SamplerOptions options)
    : dataset_size_(dataset_size), rank_(rank), world_size_(world_size), options_(options), samples_per_rank_(0) {
  const auto require = [](bool condition, const std::string& message) {
    if (!condition) throw Error(ErrorKind::invalid_argument, "DistributedSampler: " + message);
  };
  require(dataset_size > 0, "the data set has no samples");
  require(world_size > 0 && rank >= 0 && rank < world_size,
          "rank " + std::to_string(rank) + " is not in a world of " + std::to_string(world_size));
  samples_per_rank_ = samples_per_rank(dataset_size, world_size, options.drop_last);
  require(samples_per_rank_ > 0, std::to_string(dataset_size) + " samples for " + std::to_string(world_size) +
                                     " ranks leave some rank none. Use drop_last = false, or fewer ranks.");
}

std::vector<std::int64_t> DistributedSampler::indices() const {
  std::vector<std::int64_t> order;
  if (options_.shuffle) {
    order = random_permutation(dataset_size_, options_.seed + static_cast<std::uint64_t>(epoch_));
  } else {
    order.resize(static_cast<std::size_t>(dataset_size_));
    std::iota(order.begin(), order.end(), std::int64_t{0});
  }
  // Position p of the padded order is order[p mod N]: the order is repeated from its start as often as it takes.
  std::vector<std::int64_t> own;
  own.reserve(static_cast<std::size_t>(samples_per_rank_));
  for (std::int64_t i = 0; i < samples_per_rank_; ++i) {
    const std::int64_t position = i * world_size_ + rank_;
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

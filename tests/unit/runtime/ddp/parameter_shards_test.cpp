#include "runtime/ddp/parameter_shards.h"

#include <ddp/distributed_data_parallel.h>

#include "runtime/backend/backends.h"
#include "support/catch.h"
#include "support/placed_memory.h"
#include "support/rank_threads.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

TEST_CASE("a range is divided into parts of parameters, and padding belongs to none") {
  // In the arena, parameter 1 is at 0, then comes padding, and parameter 0 is at 16.
  const std::vector<ParameterSize> sizes = {{DataType::f32, 20}, {DataType::f32, 5}};
  const GradientLayout layout = lay_out(sizes);
  const Bucket bucket{DataType::f32, {1, 0}, {{0, 36}}};
  using Pieces = std::vector<RangePiece>;
  CHECK(pieces_within(bucket, {0, 36}, sizes, layout) == Pieces{{1, 0, 0, 5}, {0, 0, 16, 20}});
  CHECK(pieces_within(bucket, {3, 20}, sizes, layout) == Pieces{{1, 3, 0, 2}, {0, 0, 13, 7}});
  CHECK(pieces_within(bucket, {5, 11}, sizes, layout).empty());
  CHECK(pieces_within(bucket, {32, 4}, sizes, layout) == Pieces{{0, 16, 0, 4}});
}

namespace {

// Gives each element of a rank's pieces a number, shares the pieces, and requires the numbers of all ranks.
void share_numbers(RankThreads::Rank& self, const MemoryUnderTest& memory, const std::vector<std::size_t>& counts) {
  PlacedMemory placed(self.group(), memory.device);
  std::vector<Tensor> parameters;
  std::size_t all = 0;
  for (const std::size_t count : counts) {
    parameters.push_back({"parameter " + std::to_string(parameters.size()),
                          placed.make(std::vector<float>(count)),
                          {static_cast<std::int64_t>(count)}});
    all += count;
  }
  DataParallelOptions options;
  options.stream = placed.stream();
  options.exchange = ShardOptimizer{};
  DistributedDataParallel data_parallel(self.group(), parameters, options);
  std::size_t owned = 0;
  for (int round = 1; round <= 2; ++round) {
    const auto number = [round](std::size_t parameter, std::size_t k) {
      return static_cast<double>(round * (1000 * parameter + k));
    };
    for (const ParameterPiece& piece : data_parallel.owned()) {
      require(piece.gradient.count == piece.values.count, "gradient");
      owned += piece.values.count;
      placed.set(piece.values, [&](std::size_t k) { return number(piece.parameter, piece.first + k); });
    }
    data_parallel.share_parameters();
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const std::vector<double> values = placed.numbers(parameters[i].data);
      for (std::size_t k = 0; k < values.size(); ++k) {
        require(values[k] == number(i, k), parameters[i].name + " element " + std::to_string(k));
      }
    }
  }
  std::vector<std::int64_t> total = {static_cast<std::int64_t>(owned)};
  self.group().all_reduce(total).wait();
  require(total[0] == static_cast<std::int64_t>(2 * all), "pieces overlap or miss something");
}

}  // namespace

TEST_CASE("all ranks get the parameter pieces that each rank holds") {
  for (const MemoryUnderTest& memory : memories_under_test()) {
    for (const int size : memory.ranks({1, 2, 3, 4})) {
      INFO(size << " ranks in " << memory.name);
      RankThreads ranks(memory.make, size);
      ranks.all_succeed([&](RankThreads::Rank& self) { share_numbers(self, memory, {20, 5, 300}); });
      // One parameter fills the bucket, and its shares are equal, so that it needs no staging.
      ranks.all_succeed([&](RankThreads::Rank& self) { share_numbers(self, memory, {16 * 12}); });
      ranks.all_succeed([&](RankThreads::Rank& self) { share_numbers(self, memory, {3, 0}); });
    }
  }
}

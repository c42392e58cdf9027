#include "runtime/ddp/parameter_shards.h"

#include <ddp/distributed_data_parallel.h>

#include <numeric>

#include "runtime/backend/backends.h"
#include "support/catch.h"
#include "support/rank_threads.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

TEST_CASE("a range is cut into parts of parameters and padding belongs to none") {
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

TEST_CASE("what each rank has in its pieces comes to all ranks") {
  for (const int size : {1, 2, 3, 4}) {
    RankThreads(make_cpu_backend, size).all_succeed([&](RankThreads::Rank& self) {
      std::vector<std::vector<float>> values = {std::vector<float>(20), std::vector<float>(5), std::vector<float>(300)};
      std::vector<Tensor> parameters = {{"a", values[0], {20}}, {"b", values[1], {5}}, {"c", values[2], {300}}};
      DataParallelOptions options;
      options.exchange = ShardOptimizer{};
      DistributedDataParallel data_parallel(self.group(), parameters, options);
      std::size_t owned = 0;
      for (const ParameterPiece& piece : data_parallel.owned()) {
        require(piece.gradient.count == piece.values.count, "gradient");
        owned += piece.values.count;
        float next = static_cast<float>(piece.first + 1000 * piece.parameter);
        for (float& value : piece.values.as<float>()) value = next++;
      }
      std::vector<std::int64_t> total = {static_cast<std::int64_t>(owned)};
      self.group().all_reduce(total).wait();
      require(total[0] == 325, "pieces overlap or miss something");
      data_parallel.share_parameters();
      for (std::size_t i = 0; i < 3; ++i) {
        std::vector<float> expected(values[i].size());
        std::iota(expected.begin(), expected.end(), static_cast<float>(1000 * i));
        require(values[i] == expected, "parameter " + std::to_string(i));
      }
    });
  }
}

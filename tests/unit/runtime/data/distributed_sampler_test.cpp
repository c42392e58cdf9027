#include <ddp/distributed_sampler.h>
#include <ddp/error.h>

#include <catch2/catch.hpp>

#include <numeric>
#include <set>

#include "support/expect_error.h"

using namespace ddp::test;
using ddp::DistributedSampler;
using ddp::ErrorKind;
using ddp::random_permutation;
using ddp::SamplerOptions;
using Indices = std::vector<std::int64_t>;

namespace {

constexpr SamplerOptions kInOrder{.shuffle = false};
constexpr SamplerOptions kDropping{.drop_last = true};

Indices first(const Indices& indices, std::ptrdiff_t count) {
  return {indices.begin(), indices.begin() + count};
}

// What all ranks see together.
std::multiset<std::int64_t> seen_by_all(std::int64_t size, int world, SamplerOptions options) {
  std::multiset<std::int64_t> seen;
  for (int rank = 0; rank < world; ++rank) {
    const DistributedSampler sampler(size, rank, world, options);
    const Indices indices = sampler.indices();
    CHECK(std::ssize(indices) == sampler.size());
    seen.insert(indices.begin(), indices.end());
  }
  return seen;
}

}  // namespace

TEST_CASE("a sampler without a share is refused") {
  expect_error(ErrorKind::invalid_argument, {"no samples"}, [] { DistributedSampler(0, 0, 1); });
  expect_error(ErrorKind::invalid_argument, {"no samples"}, [] { DistributedSampler(-5, 0, 1); });
  expect_error(ErrorKind::invalid_argument, {"rank 4", "world of 4"}, [] { DistributedSampler(10, 4, 4); });
  expect_error(ErrorKind::invalid_argument, {"rank -1"}, [] { DistributedSampler(10, -1, 4); });
  expect_error(ErrorKind::invalid_argument, {"world of 0"}, [] { DistributedSampler(10, 0, 0); });
  expect_error(ErrorKind::invalid_argument, {"3 samples for 4 ranks", "drop_last"},
               [] { DistributedSampler(3, 0, 4, kDropping); });
}

TEST_CASE("a permutation is refused where PyTorch draws differently") {
  expect_error(ErrorKind::invalid_argument, {"214748364"}, [] { random_permutation(214748364, 0); });
  expect_error(ErrorKind::invalid_argument, {"-1"}, [] { random_permutation(-1, 0); });
}

// The vectors come from PyTorch 1.13.1.
TEST_CASE("the order of an epoch is that of torch.randperm") {
  CHECK(random_permutation(10, 0) == Indices{4, 1, 7, 5, 3, 9, 0, 8, 6, 2});
  CHECK(first(random_permutation(8607, 0), 8) == Indices{5810, 8232, 5295, 6795, 8398, 1042, 742, 510});
  CHECK(random_permutation(0, 0).empty());
  CHECK(random_permutation(1, 3) == Indices{0});
}

TEST_CASE("a seed counts with its low 32 bits") {
  CHECK(random_permutation(100000, 4294967299) == random_permutation(100000, 3));
  CHECK(random_permutation(100, 4) != random_permutation(100, 3));
}

TEST_CASE("8607 samples on 4 ranks are 2152 each with one repeated") {
  const DistributedSampler rank0(8607, 0, 4);
  const DistributedSampler rank3(8607, 3, 4);
  CHECK(rank0.size() == 2152);
  CHECK(first(rank0.indices(), 2) == Indices{5810, 8398});
  CHECK(first(rank3.indices(), 2) == Indices{6795, 510});
  CHECK(rank3.indices().back() == 5810);  // the padding

  const auto seen = seen_by_all(8607, 4, {});
  CHECK(seen.size() == 8608);
  CHECK(std::set<std::int64_t>(seen.begin(), seen.end()).size() == 8607);
}

TEST_CASE("8607 samples on 4 ranks are 2151 each when the rest is dropped") {
  const auto seen = seen_by_all(8607, 4, kDropping);
  CHECK(DistributedSampler(8607, 2, 4, kDropping).size() == 2151);
  CHECK(seen.size() == 8604);
  CHECK(std::set<std::int64_t>(seen.begin(), seen.end()).size() == 8604);
}

TEST_CASE("nothing is padded or dropped where the ranks divide the data") {
  for (const SamplerOptions& options : {SamplerOptions{}, kDropping}) {
    const auto seen = seen_by_all(12, 4, options);
    CHECK(seen.size() == 12);
    CHECK(std::set<std::int64_t>(seen.begin(), seen.end()).size() == 12);
  }
}

TEST_CASE("every sample is seen for any number of samples and ranks") {
  for (std::int64_t size = 1; size <= 20; ++size) {
    for (int world = 1; world <= 9; ++world) {
      INFO(size << " samples and " << world << " ranks");
      const auto seen = seen_by_all(size, world, {});
      REQUIRE(std::set<std::int64_t>(seen.begin(), seen.end()).size() == static_cast<std::size_t>(size));
    }
  }
}

TEST_CASE("with fewer samples than ranks the order repeats from its start") {
  for (int rank = 0; rank < 8; ++rank) {
    CHECK(DistributedSampler(3, rank, 8, kInOrder).indices() == Indices{rank % 3});
  }
  const Indices order = random_permutation(3, 0);
  CHECK(DistributedSampler(3, 7, 8).indices() == Indices{order[1]});
}

TEST_CASE("ranks take every W-th position") {
  CHECK(DistributedSampler(7, 0, 3, kInOrder).indices() == Indices{0, 3, 6});
  CHECK(DistributedSampler(7, 1, 3, kInOrder).indices() == Indices{1, 4, 0});
  CHECK(DistributedSampler(7, 2, 3, kInOrder).indices() == Indices{2, 5, 1});
}

TEST_CASE("the epoch is added to the seed") {
  DistributedSampler sampler(100, 1, 2, {.seed = 5});
  const Indices before = sampler.indices();
  sampler.set_epoch(3);
  CHECK(sampler.indices() == DistributedSampler(100, 1, 2, {.seed = 8}).indices());
  CHECK(sampler.indices() != before);
  sampler.set_epoch(0);
  CHECK(sampler.indices() == before);
}

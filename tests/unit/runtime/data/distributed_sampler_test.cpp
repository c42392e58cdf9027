#include <ddp/distributed_sampler.h>
#include <ddp/error.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "support/catch.h"
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

// Returns what all ranks together see.
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

// Returns what all ranks together see of the rest of an epoch, without the padding. Each rank has equally many samples.
Indices seen_of_rest(std::int64_t size, int world, SamplerOptions options, const ddp::SamplerState& state) {
  Indices seen;
  DistributedSampler first(size, 0, world, options);
  first.restore(state);
  for (int rank = 0; rank < world; ++rank) {
    DistributedSampler sampler(size, rank, world, options);
    sampler.restore(state);
    const Indices indices = sampler.indices();
    REQUIRE(sampler.size() == first.size());
    REQUIRE(std::ssize(indices) == sampler.size());
    REQUIRE(sampler.padding() <= sampler.size());
    seen.insert(seen.end(), indices.begin(), indices.end() - sampler.padding());
  }
  std::sort(seen.begin(), seen.end());
  return seen;
}

Indices sorted_rest(const Indices& order, std::int64_t consumed, std::int64_t count) {
  Indices rest(order.begin() + consumed, order.begin() + consumed + count);
  std::sort(rest.begin(), rest.end());
  return rest;
}

}  // namespace

TEST_CASE("a sampler without a valid share is rejected") {
  expect_error(ErrorKind::invalid_argument, {"no samples"}, [] { DistributedSampler(0, 0, 1); });
  expect_error(ErrorKind::invalid_argument, {"no samples"}, [] { DistributedSampler(-5, 0, 1); });
  expect_error(ErrorKind::invalid_argument, {"rank 4", "world of 4"}, [] { DistributedSampler(10, 4, 4); });
  expect_error(ErrorKind::invalid_argument, {"rank -1"}, [] { DistributedSampler(10, -1, 4); });
  expect_error(ErrorKind::invalid_argument, {"world of 0"}, [] { DistributedSampler(10, 0, 0); });
  expect_error(ErrorKind::invalid_argument, {"3 samples for 4 ranks", "drop_last"},
               [] { DistributedSampler(3, 0, 4, kDropping); });
}

TEST_CASE("a permutation is rejected if PyTorch would draw it differently") {
  expect_error(ErrorKind::invalid_argument, {"214748364"}, [] { random_permutation(214748364, 0); });
  expect_error(ErrorKind::invalid_argument, {"-1"}, [] { random_permutation(-1, 0); });
}

// The vectors come from PyTorch 1.13.1.
TEST_CASE("the order of an epoch equals torch.randperm") {
  CHECK(random_permutation(10, 0) == Indices{4, 1, 7, 5, 3, 9, 0, 8, 6, 2});
  CHECK(first(random_permutation(8607, 0), 8) == Indices{5810, 8232, 5295, 6795, 8398, 1042, 742, 510});
  CHECK(random_permutation(0, 0).empty());
  CHECK(random_permutation(1, 3) == Indices{0});
}

TEST_CASE("only the low 32 bits of a seed are used") {
  CHECK(random_permutation(100000, 4294967299) == random_permutation(100000, 3));
  CHECK(random_permutation(100, 4) != random_permutation(100, 3));
}

TEST_CASE("8607 samples on 4 ranks give 2152 each with one repeated") {
  const DistributedSampler rank0(8607, 0, 4);
  const DistributedSampler rank3(8607, 3, 4);
  CHECK(rank0.size() == 2152);
  CHECK(first(rank0.indices(), 2) == Indices{5810, 8398});
  CHECK(first(rank3.indices(), 2) == Indices{6795, 510});
  CHECK(rank3.indices().back() == 5810);  // this is the padding

  const auto seen = seen_by_all(8607, 4, {});
  CHECK(seen.size() == 8608);
  CHECK(std::set<std::int64_t>(seen.begin(), seen.end()).size() == 8607);
}

TEST_CASE("8607 samples on 4 ranks give 2151 each when the remainder is dropped") {
  const auto seen = seen_by_all(8607, 4, kDropping);
  CHECK(DistributedSampler(8607, 2, 4, kDropping).size() == 2151);
  CHECK(seen.size() == 8604);
  CHECK(std::set<std::int64_t>(seen.begin(), seen.end()).size() == 8604);
}

TEST_CASE("nothing is padded or dropped if the data can be divided evenly") {
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

TEST_CASE("each rank takes every W-th position") {
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

TEST_CASE("after some samples the sampler returns the remaining indices") {
  for (std::int64_t size = 1; size <= 20; ++size) {
    for (int world = 1; world <= 7; ++world) {
      for (const SamplerOptions& options : {SamplerOptions{.seed = 3}, kInOrder, kDropping}) {
        if (options.drop_last && size < world) continue;
        for (int rank = 0; rank < world; ++rank) {
          DistributedSampler sampler(size, rank, world, options);
          sampler.set_epoch(5);
          const Indices all = sampler.indices();
          for (std::int64_t used = 0; used <= std::ssize(all); ++used) {
            INFO("rank " << rank << " of " << world << ", " << used << " of " << size << " samples used");
            sampler.set_epoch(5);
            sampler.consume(used);
            REQUIRE(sampler.indices() == Indices(all.begin() + used, all.end()));
            REQUIRE(sampler.size() == std::ssize(all) - used);
            DistributedSampler resumed(size, rank, world, options);
            resumed.restore(sampler.state());
            REQUIRE(resumed.state() == sampler.state());
            REQUIRE(resumed.indices() == sampler.indices());
          }
        }
      }
    }
  }
}

TEST_CASE("a changed number of ranks shares the remaining samples, each once") {
  for (std::int64_t size = 1; size <= 18; ++size) {
    const Indices order = random_permutation(size, 9);
    for (std::int64_t consumed = 0; consumed <= size; ++consumed) {
      for (int world = 1; world <= 8; ++world) {
        INFO(consumed << " of " << size << " samples consumed, " << world << " ranks");
        const ddp::SamplerState state{.epoch = 2, .consumed = consumed};
        const std::int64_t left = size - consumed;
        REQUIRE(seen_of_rest(size, world, {.seed = 7}, state) == sorted_rest(order, consumed, left));
        if (size < world) continue;
        REQUIRE(seen_of_rest(size, world, {.seed = 7, .drop_last = true}, state) ==
                sorted_rest(order, consumed, left / world * world));
      }
    }
  }
}

TEST_CASE("a run may change its number of ranks repeatedly within an epoch") {
  constexpr std::int64_t kSize = 1000;
  ddp::SamplerState state{.epoch = 4, .consumed = 0};
  Indices seen;
  for (const int world : {8, 3, 5, 1, 16}) {
    std::vector<DistributedSampler> ranks;
    for (int rank = 0; rank < world; ++rank) ranks.emplace_back(kSize, rank, world);
    for (DistributedSampler& sampler : ranks) {
      sampler.restore(state);
      const std::int64_t used = world == 16 ? sampler.size() : 17;
      const Indices indices = first(sampler.indices(), used);
      const std::int64_t padding = world == 16 ? sampler.padding() : 0;
      seen.insert(seen.end(), indices.begin(), indices.end() - padding);
      sampler.consume(used);
      CHECK(sampler.state() == ranks.front().state());
    }
    state = ranks.front().state();
  }
  CHECK(state == ddp::SamplerState{.epoch = 4, .consumed = kSize});
  std::sort(seen.begin(), seen.end());
  Indices everything(kSize);
  std::iota(everything.begin(), everything.end(), 0);
  CHECK(seen == everything);
}

TEST_CASE("the remainder is dealt out from its first position and padded from the start of the order") {
  const auto left_of = [](int rank) {
    DistributedSampler sampler(10, rank, 3, kInOrder);
    sampler.restore({.epoch = 0, .consumed = 5});
    return sampler;
  };
  CHECK(left_of(0).indices() == Indices{5, 8});
  CHECK(left_of(1).indices() == Indices{6, 9});
  CHECK(left_of(2).indices() == Indices{7, 0});
  CHECK(left_of(1).padding() == 0);
  CHECK(left_of(2).padding() == 1);
}

TEST_CASE("padding is distinguished from samples that other ranks have") {
  CHECK(DistributedSampler(7, 0, 3).padding() == 0);
  CHECK(DistributedSampler(7, 1, 3).padding() == 1);
  CHECK(DistributedSampler(7, 2, 3).padding() == 1);
  CHECK(DistributedSampler(7, 2, 3, kDropping).padding() == 0);
  CHECK(DistributedSampler(6, 2, 3).padding() == 0);
  for (int rank = 0; rank < 8; ++rank) CHECK(DistributedSampler(3, rank, 8).padding() == (rank < 3 ? 0 : 1));
}

TEST_CASE("a consumed epoch has no samples left, and the next one is complete") {
  DistributedSampler sampler(10, 1, 4);
  sampler.set_epoch(6);
  sampler.consume(3);
  CHECK(sampler.state() == ddp::SamplerState{.epoch = 6, .consumed = 10});  // these are samples without padding
  CHECK(sampler.size() == 0);
  CHECK(sampler.padding() == 0);
  CHECK(sampler.indices().empty());
  sampler.set_epoch(7);
  CHECK(sampler.state() == ddp::SamplerState{.epoch = 7, .consumed = 0});
  CHECK(sampler.size() == 3);
}

TEST_CASE("consuming more samples than are left is rejected") {
  DistributedSampler sampler(10, 1, 4);
  sampler.set_epoch(2);
  sampler.consume(2);
  sampler.consume(0);
  expect_error(ErrorKind::invalid_argument, {"consume(2)", "1 sample left of epoch 2", "set_epoch()"},
               [&] { sampler.consume(2); });
  expect_error(ErrorKind::invalid_argument, {"consume(-1)"}, [&] { sampler.consume(-1); });
  CHECK(sampler.state() == ddp::SamplerState{.epoch = 2, .consumed = 8});
}

TEST_CASE("a sampler state that does not fit the data is rejected") {
  DistributedSampler sampler(10, 0, 2);
  expect_error(ErrorKind::mismatch, {"epoch 3 consumed 11", "10 samples", "other data"},
               [&] { sampler.restore({.epoch = 3, .consumed = 11}); });
  expect_error(ErrorKind::mismatch, {"consumed -1"}, [&] { sampler.restore({.epoch = 3, .consumed = -1}); });
  CHECK(sampler.state() == ddp::SamplerState{});
}

TEST_CASE("the sampler state is written and read as text") {
  CHECK(to_string(ddp::SamplerState{.epoch = 3, .consumed = 1200}) == "epoch 3 consumed 1200");
  for (const ddp::SamplerState& state :
       {ddp::SamplerState{}, {.epoch = -1, .consumed = 5}, {.epoch = INT64_MIN, .consumed = INT64_MAX}}) {
    CHECK(ddp::parse_sampler_state(to_string(state)) == state);
  }
  for (const char* text : {"", "epoch 3", "epoch 3 consumed", "epoch 3 consumed x", "epoch 3 consumed -1",
                           "epoch 3.5 consumed 1", "epoch 3 consumed 1 ", "epoch  3 consumed 1", "Epoch 3 consumed 1",
                           "epoch 3 eaten 1", "epoch 3 consumed 99999999999999999999"}) {
    expect_error(ErrorKind::corrupt, {"'" + std::string(text) + "'", "epoch 3 consumed 1200"},
                 [&] { ddp::parse_sampler_state(text); });
  }
}

#include "runtime/checkpoint/write_plan.h"

#include <ddp/error.h>

#include "support/catch.h"
#include "support/expect_error.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;
using Pieces = std::vector<ManifestPiece>;
using Shards = std::vector<std::vector<ShardDescription>>;

namespace {

ShardDescription part(std::size_t first, std::size_t count) {
  return {"w", DataType::f32, {10}, first, count};
}

}  // namespace

TEST_CASE("data that all ranks have is written by one rank or divided among all") {
  const Shards shards(3, {part(0, 10)});
  CHECK(plan_writing(shards, true).at("w").pieces == Pieces{{0, 0, 4}, {1, 4, 4}, {2, 8, 2}});
  CHECK(plan_writing(shards, false).at("w").pieces == Pieces{{0, 0, 10}});
}

TEST_CASE("parts are written by the ranks that have them in the order of the tensor") {
  CHECK(plan_writing({{part(6, 4)}, {}, {part(0, 6)}}, true).at("w").pieces == Pieces{{2, 0, 6}, {0, 6, 4}});
  CHECK(plan_writing({{part(0, 0)}, {part(0, 10)}}, true).at("w").pieces == Pieces{{1, 0, 10}});
  CHECK(plan_writing({{part(0, 5)}, {part(5, 5)}, {part(0, 5)}}, true).at("w").pieces ==
        Pieces{{0, 0, 3}, {2, 3, 2}, {1, 5, 5}});
  CHECK(plan_writing({{{"empty", DataType::f32, {0}, 0, 0}}}, true).at("empty").pieces.empty());
}

TEST_CASE("elements that no rank or two ranks have are named") {
  const auto refused = [](const Shards& shards, const std::vector<std::string>& words) {
    expect_error(ErrorKind::invalid_argument, words, [&] { plan_writing(shards, true); });
  };
  refused({{part(0, 4)}, {part(5, 5)}}, {"'w'", "element 4 of tensor 'w' is in no rank's part"});
  refused({{part(0, 4)}, {part(4, 5)}}, {"element 9 of tensor 'w' is in no rank's part"});
  refused({{part(0, 6)}, {part(4, 6)}}, {"element 4", "overlap"});
  refused({{}, {part(0, 10), part(0, 10)}}, {"rank 1 names tensor 'w' twice"});
  expect_error(ErrorKind::mismatch, {"'w'", "f32[10] on rank 0", "f32[5x2] on rank 1"}, [] {
    plan_writing({{part(0, 10)}, {{"w", DataType::f32, {5, 2}, 0, 10}}}, true);
  });
}

TEST_CASE("overlap_of() returns where a shard and a manifest piece overlap, as an offset in each") {
  CHECK(overlap_of(0, 10, {0, 0, 10}) == Overlap{0, 0, 10});
  CHECK(overlap_of(4, 4, {0, 0, 6}) == Overlap{0, 4, 2});
  CHECK(overlap_of(4, 4, {0, 6, 6}) == Overlap{2, 0, 2});
  CHECK(overlap_of(4, 4, {0, 8, 2}) == Overlap{});
  CHECK(overlap_of(4, 0, {0, 0, 10}) == Overlap{});
}

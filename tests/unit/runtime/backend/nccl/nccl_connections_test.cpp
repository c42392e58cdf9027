#include "runtime/backend/nccl/nccl_connections.h"

#include <vector>

#include "support/catch.h"

using namespace ddp::internal;

namespace {

NcclStep reduction(std::size_t count, NcclType type = NcclType::f32, NcclOp op = NcclOp::sum) {
  return {NcclFunction::all_reduce, nullptr, nullptr, count, type, op};
}
NcclStep transfer(NcclFunction function, int peer) {
  return {function, nullptr, nullptr, 1, NcclType::u8, NcclOp::sum, peer};
}

bool suffice(const NcclConnections& connections, const std::vector<NcclStep>& steps) {
  return connections.suffice_for(steps);
}

}  // namespace

TEST_CASE("collectives are known by function, type, reduction and the order of magnitude of their size") {
  NcclConnections connections;
  CHECK_FALSE(suffice(connections, {reduction(8)}));
  connections.add(std::vector{reduction(8)});
  CHECK(suffice(connections, {reduction(8)}));
  CHECK(suffice(connections, {reduction(15)}));
  CHECK_FALSE(suffice(connections, {reduction(16)}));
  CHECK_FALSE(suffice(connections, {reduction(8, NcclType::f16)}));
  CHECK_FALSE(suffice(connections, {reduction(8, NcclType::f32, NcclOp::max)}));
  NcclStep premultiplied = reduction(8);
  premultiplied.factor = 0.5;
  CHECK_FALSE(suffice(connections, {premultiplied}));
  connections.add(std::vector{premultiplied});
  premultiplied.factor = 0.25;
  CHECK(suffice(connections, {premultiplied}));
  NcclStep gather = reduction(8);
  gather.function = NcclFunction::all_gather;
  CHECK_FALSE(suffice(connections, {gather}));
}

TEST_CASE("collectives that are called together are known only together, in any order") {
  NcclConnections connections;
  connections.add(std::vector{reduction(8)});
  connections.add(std::vector{reduction(64)});
  CHECK_FALSE(suffice(connections, {reduction(8), reduction(64)}));
  CHECK_FALSE(suffice(connections, {reduction(8), reduction(8)}));
  connections.add(std::vector{reduction(8), reduction(64)});
  CHECK(suffice(connections, {reduction(64), reduction(8)}));
}

TEST_CASE("transfers are known by peer and direction") {
  NcclConnections connections;
  connections.add(std::vector{transfer(NcclFunction::send, 1), transfer(NcclFunction::receive, 1)});
  CHECK(suffice(connections, {transfer(NcclFunction::receive, 1)}));
  CHECK_FALSE(suffice(connections, {transfer(NcclFunction::send, 1), transfer(NcclFunction::send, 2)}));
  CHECK(suffice(connections, {}));
}

TEST_CASE("groups of ever new sizes do not fill the memory, and the latest is known") {
  NcclConnections connections;
  for (std::size_t first = 0; first < 40; ++first) {
    for (std::size_t second = first; second < 40; ++second) {
      for (std::size_t third = second; third < 40; ++third) {
        const std::vector steps = {reduction(std::size_t{1} << first), reduction(std::size_t{1} << second),
                                   reduction(std::size_t{1} << third)};
        connections.add(steps);
        CHECK(connections.suffice_for(steps));
      }
    }
  }
  CHECK_FALSE(suffice(connections, {reduction(1), reduction(1), reduction(1)}));
}

#include "runtime/backend/nccl/nccl_steps.h"

#include <array>
#include <vector>

#include "support/calls.h"
#include "support/catch.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

namespace {

std::array<float, 64> memory;

Buffer gpu(std::size_t first, std::size_t count, DataType type = DataType::f32) {
  return {memory.data() + first, count, type, DeviceType::cuda};
}
ConstBuffer host(std::size_t first, std::size_t count) {
  return {memory.data() + first, count, DataType::f32};
}

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

TEST_CASE("a reduction keeps its type, and a transfer moves bytes") {
  const auto reduction = nccl_steps(all_reduce(gpu(0, 8), ReduceOp::average), 0, 2, nullptr);
  REQUIRE(reduction.size() == 1);
  CHECK(reduction[0] ==
        NcclStep{NcclFunction::all_reduce, memory.data(), memory.data(), 8, NcclType::f32, NcclOp::average});
  const auto transfer = nccl_steps(broadcast(gpu(0, 8), 1), 0, 2, nullptr);
  REQUIRE(transfer.size() == 1);
  CHECK(transfer[0] ==
        NcclStep{NcclFunction::broadcast, memory.data(), memory.data(), 32, NcclType::u8, NcclOp::sum, 1});
}

TEST_CASE("a premultiplied sum keeps its factor even if the factor is one") {
  // A factor of one must not change the request to NCCL, because ranks have different factors.
  const auto steps = nccl_steps(all_reduce(gpu(0, 8), ReduceOp::premultiplied(1)), 0, 2, nullptr);
  CHECK(steps[0].factor == 1.0);
}

TEST_CASE("for bool, sum and max are logical or, and product and min are logical and") {
  const auto op_of = [](ReduceOp op) {
    return nccl_steps(all_reduce(gpu(0, 8, DataType::boolean), op), 0, 2, nullptr)[0].op;
  };
  CHECK(op_of(ReduceOp::sum) == NcclOp::max);
  CHECK(op_of(ReduceOp::max) == NcclOp::max);
  CHECK(op_of(ReduceOp::product) == NcclOp::min);
  CHECK(op_of(ReduceOp::min) == NcclOp::min);
}

TEST_CASE("NCCL moves any type but cannot reduce short integers or bits") {
  CHECK_FALSE(nccl_can(all_reduce(gpu(0, 8, DataType::i16))));
  CHECK_FALSE(nccl_can(all_reduce(gpu(0, 8, DataType::u8), ReduceOp::bit_xor)));
  CHECK(nccl_can(all_reduce(gpu(0, 8, DataType::u8), ReduceOp::max)));
  CHECK_FALSE(nccl_can(all_reduce(gpu(0, 8, DataType::f32), ReduceOp::max)));  // it would drop a NaN
  CHECK(nccl_can(all_reduce(gpu(0, 8, DataType::f32), ReduceOp::average)));
  CHECK(nccl_can(broadcast(gpu(0, 8, DataType::i16), 0)));
}

TEST_CASE("an all_reduce that would lose a NaN uses integers in the order of the values") {
  const Call call = all_reduce(gpu(0, 8, DataType::bf16), ReduceOp::max);
  REQUIRE(reduces_in_order(call));
  CHECK_FALSE(reduces_in_order(all_reduce(gpu(0, 8), ReduceOp::sum)));
  CHECK_FALSE(reduces_in_order(all_reduce(gpu(0, 8, DataType::i32), ReduceOp::max)));
  CHECK_FALSE(reduces_in_order(barrier()));
  const Call changed = call_on_integers(call, memory.data() + 32);
  CHECK(nccl_can(changed));
  CHECK(nccl_steps(changed, 0, 2, nullptr)[0] ==
        NcclStep{NcclFunction::all_reduce, memory.data() + 32, memory.data() + 32, 8, NcclType::i32, NcclOp::max});
}

TEST_CASE("parts of different sizes are gathered and scattered rank by rank") {
  Call gather = call_of(Operation::all_gather, gpu(0, 2), {});
  gather.output_parts = {gpu(8, 3), gpu(16, 2), gpu(24, 0)};
  const auto steps = nccl_steps(gather, 1, 3, nullptr);
  REQUIRE(steps.size() == 2);
  CHECK(steps[0].peer == 0);
  CHECK(steps[0].count == 12);
  CHECK(steps[1].send == memory.data());
  CHECK(steps[1].receive == memory.data() + 16);

  Call scatter = call_of(Operation::reduce_scatter, gpu(0, 5), gpu(32, 2));
  scatter.input_parts = {gpu(0, 3), gpu(3, 2)};
  const auto reductions = nccl_steps(scatter, 1, 2, nullptr);
  REQUIRE(reductions.size() == 2);
  CHECK(reductions[1].function == NcclFunction::reduce);
  CHECK(reductions[1].peer == 1);
  CHECK(reductions[1].send == memory.data() + 3);
}

TEST_CASE("an exchange sends to and receives from every rank that has data") {
  const auto all = nccl_steps(call_of(Operation::all_to_all, gpu(0, 6), gpu(8, 6)), 1, 3, nullptr);
  CHECK(all.size() == 6);
  const auto root = nccl_steps(call_of(Operation::gather, gpu(0, 2), gpu(8, 6), 1), 1, 3, nullptr);
  CHECK(root.size() == 4);  // the root's own part is among them
  const auto other = nccl_steps(call_of(Operation::gather, gpu(0, 2), {}, 1), 0, 3, nullptr);
  REQUIRE(other.size() == 1);
  CHECK(other[0].function == NcclFunction::send);
  CHECK(other[0].peer == 1);
}

TEST_CASE("staging copies the rank's input in and its output out") {
  std::array<std::byte, 4096> base;
  const auto staged_broadcast = [&](int rank) {
    const ConstBuffer data = host(0, 8);
    return stage(broadcast({memory.data(), data.count, data.type}, 1), rank, 2, base.data());
  };
  CHECK(staged_broadcast(0).before.empty());
  CHECK(staged_broadcast(0).after.size() == 1);
  CHECK(staged_broadcast(1).before.size() == 1);

  const Call gather = call_of(Operation::gather, host(0, 2), {memory.data() + 8, 4, DataType::f32}, 0);
  const StagedCall staged = stage(gather, 0, 2, base.data());
  REQUIRE(staged.before.size() == 1);
  REQUIRE(staged.after.size() == 1);
  CHECK(staged.call.input.data != staged.call.output.data);
  CHECK(staged.call.output.device == DeviceType::cuda);
  CHECK(staged.after[0].bytes == 16);
  CHECK(staging_bytes(gather) == 512);
}

TEST_CASE("data in GPU memory needs no staging") {
  CHECK_FALSE(touches_host_memory(all_reduce(gpu(0, 8))));
  CHECK_FALSE(touches_host_memory(barrier()));
  CHECK_FALSE(touches_host_memory(call_of(Operation::gather, gpu(0, 8), {}, 1)));
  CHECK(touches_host_memory(call_of(Operation::all_gather, host(0, 8), gpu(8, 16))));
}

TEST_CASE("connected collectives are identified by function, type, reduction and order of magnitude") {
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

TEST_CASE("collectives of one batch count as connected only together, in any order") {
  NcclConnections connections;
  connections.add(std::vector{reduction(8)});
  connections.add(std::vector{reduction(64)});
  CHECK_FALSE(suffice(connections, {reduction(8), reduction(64)}));
  CHECK_FALSE(suffice(connections, {reduction(8), reduction(8)}));
  connections.add(std::vector{reduction(8), reduction(64)});
  CHECK(suffice(connections, {reduction(64), reduction(8)}));
}

TEST_CASE("connected transfers are identified by peer and direction") {
  NcclConnections connections;
  connections.add(std::vector{transfer(NcclFunction::send, 1), transfer(NcclFunction::receive, 1)});
  CHECK(suffice(connections, {transfer(NcclFunction::receive, 1)}));
  CHECK_FALSE(suffice(connections, {transfer(NcclFunction::send, 1), transfer(NcclFunction::send, 2)}));
  CHECK(suffice(connections, {}));
}

TEST_CASE("the memory for connected batches is bounded, and the latest batch is known") {
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

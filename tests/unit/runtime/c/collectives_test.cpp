#include <ddp/c.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "support/c_ranks.h"
#include "support/catch.h"

using namespace ddp::test;

namespace {

constexpr int kRanks = 3;
using Numbers = std::vector<std::int32_t>;

void require_numbers(const Numbers& found, const Numbers& expected, const std::string& what) {
  std::string text;
  for (const std::int32_t number : found) text += " " + std::to_string(number);
  require(found == expected, what + " gave" + text);
}

}  // namespace

TEST_CASE("C: reductions over all ranks are correct") {
  run_c_ranks(kRanks, [](ddp_group* world, int rank) {
    Numbers sum = {rank, 10 * rank};
    require_status(ddp_all_reduce(world, sum.data(), 2, DDP_TYPE_I32, DDP_OP_SUM, nullptr, nullptr), DDP_OK);
    require_numbers(sum, {3, 30}, "all_reduce");

    Numbers most = {rank};
    require_status(ddp_reduce(world, most.data(), 1, DDP_TYPE_I32, DDP_OP_MAX, 1, nullptr, nullptr), DDP_OK);
    require_numbers(most, {rank == 1 ? 2 : rank}, "reduce");

    const Numbers input = {1, 10, 100};
    Numbers part = {0};
    require_status(ddp_reduce_scatter(world, input.data(), part.data(), 1, DDP_TYPE_I32, DDP_OP_SUM, nullptr, nullptr),
                   DDP_OK);
    require_numbers(part, {kRanks * input[static_cast<std::size_t>(rank)]}, "reduce_scatter");

    ddp_call_options options = DDP_CALL_OPTIONS_INIT;
    options.factor = rank;
    double weighted = 8;
    require_status(ddp_all_reduce(world, &weighted, 1, DDP_TYPE_F64, DDP_OP_PREMULTIPLIED_SUM, &options, nullptr),
                   DDP_OK);
    require(weighted == 24, "a premultiplied sum gave " + std::to_string(weighted));
  });
}

TEST_CASE("C: data moves between all ranks") {
  run_c_ranks(kRanks, [](ddp_group* world, int rank) {
    Numbers value = {rank};
    require_status(ddp_broadcast(world, value.data(), 1, DDP_TYPE_I32, 2, nullptr, nullptr), DDP_OK);
    require_numbers(value, {2}, "broadcast");

    const Numbers own = {rank, -rank};
    Numbers all(2 * kRanks);
    require_status(ddp_all_gather(world, own.data(), all.data(), 2, DDP_TYPE_I32, nullptr, nullptr), DDP_OK);
    require_numbers(all, {0, 0, 1, -1, 2, -2}, "all_gather");

    Numbers gathered(2 * kRanks);
    void* output = rank == 0 ? gathered.data() : nullptr;
    require_status(ddp_gather(world, own.data(), output, 2, DDP_TYPE_I32, 0, nullptr, nullptr), DDP_OK);
    if (rank == 0) require_numbers(gathered, all, "gather");

    Numbers received(2);
    const void* input = rank == 0 ? gathered.data() : nullptr;
    require_status(ddp_scatter(world, input, received.data(), 2, DDP_TYPE_I32, 0, nullptr, nullptr), DDP_OK);
    require_numbers(received, own, "scatter");

    const Numbers given = {10 * rank, 10 * rank + 1, 10 * rank + 2};
    Numbers exchanged(kRanks);
    require_status(ddp_all_to_all(world, given.data(), exchanged.data(), 1, DDP_TYPE_I32, nullptr, nullptr), DDP_OK);
    require_numbers(exchanged, {rank, 10 + rank, 20 + rank}, "all_to_all");
    require_status(ddp_barrier(world, nullptr, nullptr), DDP_OK);
    require_status(ddp_monitored_barrier(world, 0), DDP_OK);
  });
}

TEST_CASE("C: parts may have different lengths") {
  run_c_ranks(2, [](ddp_group* world, int rank) {
    // Rank r contributes r + 1 numbers.
    const std::int64_t count = rank + 1;
    Numbers own(static_cast<std::size_t>(count), 7 + rank);
    Numbers first(1);
    Numbers second(2);
    const std::array<ddp_part, 2> parts = {{{first.data(), 1}, {second.data(), 2}}};
    const ddp_part* on_root = rank == 1 ? parts.data() : nullptr;
    require_status(ddp_all_gather_parts(world, own.data(), count, parts.data(), 2, DDP_TYPE_I32, nullptr, nullptr),
                   DDP_OK);
    require_numbers(first, {7}, "all_gather_parts");
    require_numbers(second, {8, 8}, "all_gather_parts");
    first = {0};
    require_status(
        ddp_gather_parts(world, own.data(), count, on_root, rank == 1 ? 2 : 0, DDP_TYPE_I32, 1, nullptr, nullptr),
        DDP_OK);
    if (rank == 1) require_numbers(first, {7}, "gather_parts");

    first = {1};
    second = {2, 3};
    require_status(
        ddp_scatter_parts(world, on_root, rank == 1 ? 2 : 0, own.data(), count, DDP_TYPE_I32, 1, nullptr, nullptr),
        DDP_OK);
    require_numbers(own, rank == 0 ? Numbers{1} : Numbers{2, 3}, "scatter_parts");
    require_status(
        ddp_reduce_scatter_parts(world, parts.data(), 2, own.data(), count, DDP_TYPE_I32, DDP_OP_SUM, nullptr, nullptr),
        DDP_OK);
    require_numbers(own, rank == 0 ? Numbers{2} : Numbers{4, 6}, "reduce_scatter_parts");

    // Rank r sends 2 numbers to rank 1 and 1 to rank 0, so it receives r + 1 from each.
    Numbers from_0(static_cast<std::size_t>(count));
    Numbers from_1(static_cast<std::size_t>(count));
    const std::array<ddp_part, 2> outputs = {{{from_0.data(), count}, {from_1.data(), count}}};
    first = {rank};
    second = {rank, rank};
    require_status(ddp_all_to_all_parts(world, parts.data(), outputs.data(), 2, DDP_TYPE_I32, nullptr, nullptr),
                   DDP_OK);
    require_numbers(from_1, Numbers(static_cast<std::size_t>(count), 1), "all_to_all_parts");
  });
}

TEST_CASE("C: a rank sends to another one") {
  run_c_ranks(2, [](ddp_group* world, int rank) {
    std::array<double, 4> values = {1, 2, 3, 4};
    if (rank == 0) {
      require_status(ddp_send(world, values.data(), 4, DDP_TYPE_F64, 1, nullptr, nullptr), DDP_OK);
    } else {
      values = {};
      require_status(ddp_recv(world, values.data(), 4, DDP_TYPE_F64, 0, nullptr, nullptr), DDP_OK);
      require(values[3] == 4, "recv gave another number");
    }
  });
}

TEST_CASE("C: ranks that pass different counts get a mismatch with both calls and places") {
  run_c_ranks(2, [](ddp_group* world, int rank) {
    Numbers values = {1, 2, 3, 4, 5};
    const int status = ddp_all_reduce(world, values.data(), 4 + rank, DDP_TYPE_I32, DDP_OP_SUM, nullptr, nullptr);
    const std::string own = "rank " + std::to_string(rank) + ": all_reduce sum";
    require_status(status, DDP_ERROR_MISMATCH, {own, "of i32[4]", "of i32[5]", "collectives_test.cpp:"});
    const ddp_error_details& details = *ddp_last_error_details();
    require(details.peer == 1 - rank && details.rank == rank && details.sequence == 1, "the details are wrong");
    require(std::string(details.group) == "world" && std::string(details.operation) == "all_reduce", "wrong names");
    require_status(ddp_barrier(world, nullptr, nullptr), DDP_ERROR_ABORTED, {"an earlier operation failed"});
  });
}

TEST_CASE("C: a call with an unknown place is described without one") {
  run_c_ranks(2, [](ddp_group* world, int rank) {
    const auto reduce = &ddp_all_reduce;
    Numbers values = {1, 2};
    const int status = reduce(world, values.data(), 1 + rank, DDP_TYPE_I32, DDP_OP_SUM, nullptr, nullptr);
    require_status(status, DDP_ERROR_MISMATCH, {"rank 0 calls all_reduce sum #1 of i32[1]"});
    require(std::string(ddp_last_error()).find("(:") == std::string::npos, ddp_last_error());
  });
}

TEST_CASE("C: invalid arguments are rejected, and the group stays usable") {
  const CWorldOfOne one;
  ddp_group* world = one.group();
  float value = 3;
  const auto refused = [&](int status, const std::vector<std::string>& words) {
    require_status(status, DDP_ERROR_INVALID_ARGUMENT, words);
  };
  refused(ddp_all_reduce(nullptr, &value, 1, DDP_TYPE_F32, DDP_OP_SUM, nullptr, nullptr),
          {"ddp_all_reduce: the ddp_group is a null pointer"});
  refused(ddp_all_reduce(world, nullptr, 1, DDP_TYPE_F32, DDP_OP_SUM, nullptr, nullptr),
          {"all_reduce", "f32[1]", "no memory (a null pointer)"});
  refused(ddp_all_reduce(world, &value, 1, 77, DDP_OP_SUM, nullptr, nullptr), {"ddp_all_reduce: type 77"});
  refused(ddp_all_reduce(world, &value, 1, DDP_TYPE_F32, 77, nullptr, nullptr), {"ddp_all_reduce: op 77"});
  refused(ddp_all_reduce(world, &value, 1, DDP_TYPE_F32, DDP_OP_BIT_OR, nullptr, nullptr), {"bit_or of f32"});
  refused(ddp_broadcast(world, &value, 1, DDP_TYPE_F32, 5, nullptr, nullptr), {"root 5", "a group of 1"});
  refused(ddp_all_gather(world, &value, nullptr, 1, DDP_TYPE_F32, nullptr, nullptr), {"null pointer"});
  refused(ddp_send(world, &value, 1, DDP_TYPE_F32, 0, nullptr, nullptr), {"rank 0 is this rank itself"});
  refused(ddp_all_to_all_parts(world, nullptr, nullptr, 0, DDP_TYPE_F32, nullptr, nullptr), {"is empty"});
  ddp_call_options options = DDP_CALL_OPTIONS_INIT;
  options.struct_size = 3;
  refused(ddp_barrier(world, &options, nullptr), {"ddp_barrier: ddp_call_options->struct_size is 3"});
  options = DDP_CALL_OPTIONS_INIT;
  options.device = DDP_DEVICE_CUDA;
  require_status(ddp_all_reduce(world, &value, 1, DDP_TYPE_F32, DDP_OP_SUM, &options, nullptr), DDP_ERROR_UNAVAILABLE,
                 {"GPU memory"});
  require_status(ddp_all_reduce(world, &value, 1, DDP_TYPE_F32, DDP_OP_SUM, nullptr, nullptr), DDP_OK);
  CHECK(value == 3);
}

TEST_CASE("C: a macro that records the place of a call does not hide the function") {
  const auto function = &ddp_barrier;
  const CWorldOfOne one;
  CHECK(function(one.group(), nullptr, nullptr) == DDP_OK);
}

TEST_CASE("C: an operation runs while its rank computes, and its status can be read repeatedly") {
  run_c_ranks(2, [](ddp_group* world, int rank) {
    std::int64_t value = rank + 1;
    ddp_work* work = nullptr;
    require_status(ddp_all_reduce(world, &value, 1, DDP_TYPE_I64, DDP_OP_SUM, nullptr, &work), DDP_OK);
    require(work != nullptr, "there is no handle");
    require_status(ddp_work_wait(work), DDP_OK);
    require(value == 3, "the sum is wrong");
    require_status(ddp_work_wait(work), DDP_OK);
    std::int32_t done = 0;
    require_status(ddp_work_test(work, &done), DDP_OK);
    require(done == 1, "it is not done");
    require_status(ddp_work_destroy(work), DDP_OK);
  });
}

TEST_CASE("C: an operation that waits for a missing rank is not done") {
  std::atomic<bool> may_come = false;
  run_c_ranks(2, [&](ddp_group* world, int rank) {
    if (rank == 1) {
      while (!may_come) std::this_thread::yield();
      require_status(ddp_barrier(world, nullptr, nullptr), DDP_OK);
      return;
    }
    ddp_work* work = nullptr;
    std::int32_t done = 7;
    require_status(ddp_barrier(world, nullptr, &work), DDP_OK);
    require_status(ddp_work_test(work, &done), DDP_OK);
    require(done == 0, "it is done without the other rank");
    require_status(ddp_work_wait_for(work, 1, &done), DDP_OK);
    require(done == 0, "it is done without the other rank");
    may_come = true;
    while (done == 0) require_status(ddp_work_test(work, &done), DDP_OK);
    require_status(ddp_work_wait_for(work, 0, &done), DDP_OK);
    require(done == 1, "it is no longer done");
    require_status(ddp_work_destroy(work), DDP_OK);
  });
}

TEST_CASE("C: a failed operation is done and gives the same error again") {
  run_c_ranks(2, [](ddp_group* world, int rank) {
    if (rank == 1) {
      require_status(ddp_abort(world), DDP_OK);
      return;
    }
    float value = 0;
    ddp_work* work = nullptr;
    require_status(ddp_all_reduce(world, &value, 1, DDP_TYPE_F32, DDP_OP_SUM, nullptr, &work), DDP_OK);
    require_status(ddp_work_wait(work), DDP_ERROR_PEER_LOST, {"rank 0: all_reduce sum #1", "rank 1"});
    const std::string text = ddp_last_error();
    require(ddp_last_error_details()->peer == 1, "the peer is wrong");
    std::int32_t done = 0;
    require_status(ddp_work_test(work, &done), DDP_ERROR_PEER_LOST, {text});
    require(done == 1, "a failed operation is not done");
    done = 0;
    require_status(ddp_work_wait_for(work, 1000, &done), DDP_ERROR_PEER_LOST, {text});
    require(done == 1, "a failed operation is not done");
    require_status(ddp_work_destroy(work), DDP_OK);
  });
}

TEST_CASE("C: an operation handle may outlive its group and is rejected once it was destroyed") {
  ddp_work* work = nullptr;
  {
    const CWorldOfOne world;
    CHECK(ddp_barrier(world.group(), nullptr, &work) == DDP_OK);
    CHECK(ddp_work_wait(work) == DDP_OK);
  }
  CHECK(ddp_work_wait(work) == DDP_OK);
  CHECK(ddp_work_destroy(work) == DDP_OK);
  CHECK(ddp_work_destroy(nullptr) == DDP_OK);
  std::int32_t done = 0;
  for (const int status :
       {ddp_work_wait(work), ddp_work_test(work, &done), ddp_work_wait_for(work, 5, &done), ddp_work_destroy(work)}) {
    require_status(status, DDP_ERROR_INVALID_ARGUMENT, {"is not a live ddp_work"});
  }
  require_status(ddp_work_wait(nullptr), DDP_ERROR_INVALID_ARGUMENT, {"ddp_work_wait: the ddp_work is a null pointer"});
}

TEST_CASE("C: a handle of another type, a null output pointer and a negative time are rejected") {
  const CWorldOfOne world;
  ddp_work* work = nullptr;
  CHECK(ddp_barrier(world.group(), nullptr, &work) == DDP_OK);
  require_status(ddp_work_wait(reinterpret_cast<ddp_work*>(world.group())), DDP_ERROR_INVALID_ARGUMENT,
                 {"is not a live ddp_work"});
  require_status(ddp_work_test(work, nullptr), DDP_ERROR_INVALID_ARGUMENT, {"done is a null pointer"});
  std::int32_t done = 0;
  require_status(ddp_work_wait_for(work, -1, &done), DDP_ERROR_INVALID_ARGUMENT, {"timeout_ms is -1"});
  CHECK(ddp_work_destroy(work) == DDP_OK);
}

TEST_CASE("C: a rejected call gives no handle") {
  ddp_work* work = reinterpret_cast<ddp_work*>(std::uintptr_t{64});
  float value = 0;
  require_status(ddp_all_reduce(nullptr, &value, 1, DDP_TYPE_F32, DDP_OP_SUM, nullptr, &work),
                 DDP_ERROR_INVALID_ARGUMENT);
  CHECK(work == nullptr);
}

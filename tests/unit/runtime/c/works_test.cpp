#include <ddp/c.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "support/c_ranks.h"
#include "support/catch.h"

using namespace ddp::test;

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

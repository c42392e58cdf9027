#include "runtime/backend/nccl/cuda_resources.h"

#include <ddp/error.h>

#include <catch2/catch.hpp>

#include "support/fake_nccl.h"

using ddp::test::FakeNccl;

TEST_CASE("a failed cuda call is an error with the deed and cuda's name for the failure") {
  const FakeNccl fake;
  CHECK_NOTHROW(ddp::require_cuda(fake.cuda(), ddp::kCudaSuccess, "make a stream"));
  CHECK_THROWS_WITH(ddp::require_cuda(fake.cuda(), 2, "make a stream"),
                    "CUDA cannot make a stream (cudaErrorMemoryAllocation)");
}

TEST_CASE("device memory that could not grow can be asked for again") {
  const FakeNccl fake;
  const ddp::CudaApi cuda = fake.cuda();
  ddp::DeviceScratch scratch(cuda);
  scratch.reserve(10);
  fake.rank().out_of_memory = true;
  CHECK_THROWS_AS(scratch.reserve(20), ddp::Error);
  fake.rank().out_of_memory = false;
  CHECK(scratch.reserve(10) != nullptr);
  CHECK(fake.rank().allocations == 2);
}

TEST_CASE("device memory grows and is given back at the end unless it was abandoned") {
  const FakeNccl fake;
  const ddp::CudaApi cuda = fake.cuda();
  const bool abandoned = GENERATE(false, true);
  {
    ddp::DeviceScratch scratch(cuda);
    void* memory = scratch.reserve(10);
    CHECK(scratch.reserve(4) == memory);
    scratch.reserve(20);
    if (abandoned) scratch.abandon();
  }
  CHECK(fake.rank().allocations == 2);
  CHECK(fake.rank().releases == (abandoned ? 1 : 2));
}

TEST_CASE("a stream is destroyed at the end unless it was abandoned") {
  const FakeNccl fake;
  const ddp::CudaApi cuda = fake.cuda();
  const bool abandoned = GENERATE(false, true);
  {
    ddp::CudaStream stream(cuda);
    if (abandoned) stream.abandon();
  }
  CHECK(fake.rank().streams_destroyed == (abandoned ? 0 : 1));
}

#include "runtime/backend/nccl/cuda_resources.h"

#include <ddp/error.h>

#include "support/catch.h"
#include "support/gpu_libraries.h"

namespace {

// Counts the streams of the fake driver.
struct CountedCuda {
  ddp::internal::CudaApi api = ddp::test::gpu_libraries()->cuda;
  int streams = 0;

  CountedCuda() {
    api.set_device(0);
    api.create_stream = [this, real = api.create_stream](ddp::internal::CudaStreamHandle& stream) {
      ++streams;
      return real(stream);
    };
    api.destroy_stream = [this, real = api.destroy_stream](ddp::internal::CudaStreamHandle stream) {
      --streams;
      return real(stream);
    };
  }
};

}  // namespace

TEST_CASE("a failed cuda call is an error with the action and cuda's name for the failure") {
  const CountedCuda cuda;
  CHECK_NOTHROW(ddp::internal::require_cuda(cuda.api, ddp::internal::kCudaSuccess, "make a stream"));
  CHECK_THROWS_WITH(ddp::internal::require_cuda(cuda.api, 2, "make a stream"),
                    "CUDA cannot make a stream (CUDA_ERROR_OUT_OF_MEMORY)");
}

TEST_CASE("a stream is destroyed at the end unless it was abandoned") {
  CountedCuda cuda;
  const bool abandoned = GENERATE(false, true);
  {
    ddp::internal::CudaStream stream(cuda.api);
    if (abandoned) stream.abandon();
  }
  CHECK(cuda.streams == (abandoned ? 1 : 0));
}

TEST_CASE("an event stands for what was on the stream and is used again") {
  const CountedCuda cuda;
  ddp::internal::CudaStream stream(cuda.api);
  ddp::internal::CudaEvents events(cuda.api);
  const ddp::internal::CudaEventHandle first = events.record(stream.handle());
  events.finish(stream.handle(), ddp::test::kPatience);
  CHECK(cuda.api.query_event(first) == ddp::internal::kCudaSuccess);
  events.put_back(first);
  CHECK(events.record(stream.handle()) == first);
  events.finish(stream.handle(), ddp::test::kPatience);
  events.put_back(first);
}

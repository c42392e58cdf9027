#include "runtime/backend/nccl/cuda_resources.h"

#include <ddp/error.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <functional>
#include <vector>

#include "support/catch.h"
#include "support/expect_error.h"
#include "support/gpu_libraries.h"

namespace {

// Counts the streams of the fake driver.
struct CountedCuda {
  ddp::internal::CudaApi api = ddp::test::gpu_libraries()->cuda;
  int streams = 0;

  CountedCuda() {
    api.set_device(0);
    ddp::test::replace(
        api.create_prior_stream,
        [this, real = api.create_prior_stream](ddp::internal::CudaStreamHandle& stream, unsigned flags, int priority) {
          ++streams;
          return real(stream, flags, priority);
        });
    ddp::test::replace(api.destroy_stream, [this, real = api.destroy_stream](ddp::internal::CudaStreamHandle stream) {
      --streams;
      return real(stream);
    });
  }
};

}  // namespace

TEST_CASE("a failed CUDA call is an error with the action and CUDA's error name") {
  const CountedCuda cuda;
  CHECK_NOTHROW(ddp::internal::require_cuda(cuda.api, ddp::internal::kCudaSuccess, "make a stream"));
  CHECK_THROWS_WITH(ddp::internal::require_cuda(cuda.api, 2, "make a stream"),
                    "CUDA cannot make a stream (CUDA_ERROR_OUT_OF_MEMORY)");
}

TEST_CASE("a GPU without enough memory is an error with the requested and free amounts") {
  CountedCuda cuda;
  ddp::test::replace(cuda.api.memory_info, [](std::size_t& free, std::size_t& total) {
    free = std::size_t{3} << 29;
    total = std::size_t{79} << 30;
    return ddp::internal::kCudaSuccess;
  });
  const auto refused = [&](ddp::internal::CudaStatus status) {
    ddp::internal::require_gpu_memory(cuda.api, status, {std::size_t{2} << 30, "", 1, 5});
  };
  CHECK_NOTHROW(refused(ddp::internal::kCudaSuccess));
  ddp::test::expect_error(
      ddp::ErrorKind::unavailable,
      {"out of GPU memory: 2 GiB were requested on GPU 1 by rank 5, where 1.5 GiB of 79 GiB are free "
       "(CUDA_ERROR_OUT_OF_MEMORY). Try a smaller batch"},
      [&] { refused(ddp::internal::kCudaOutOfMemory); });
  ddp::test::expect_error(ddp::ErrorKind::internal, {"allocate 2147483648 bytes of GPU memory"}, [&] { refused(100); });
  ddp::test::replace(cuda.api.memory_info, [](std::size_t&, std::size_t&) { return ddp::internal::CudaStatus(100); });
  ddp::test::expect_error(ddp::ErrorKind::unavailable, {"by rank 5 (CUDA_ERROR_OUT_OF_MEMORY)"},
                          [&] { refused(ddp::internal::kCudaOutOfMemory); });
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

TEST_CASE("an event marks the current work of a stream and is reused") {
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

// The runtime relies on this: after an exception, an owner frees host memory that a copy was given.
TEST_CASE("a copy from or to pageable memory is finished when the call returns") {
  const CountedCuda cuda;
  constexpr std::size_t kCount = 1 << 18;
  constexpr std::size_t kBytes = kCount * sizeof(float);
  void* memory = nullptr;
  REQUIRE(cuda.api.allocate(memory, kBytes) == ddp::internal::kCudaSuccess);
  {
    const ddp::internal::CudaStream stream(cuda.api);
    for (float round = 1; round <= 5; ++round) {
      std::vector<float> from(kCount, round);
      std::vector<float> to(kCount);
      CHECK(cuda.api.copy_async(memory, from.data(), kBytes, stream.handle()) == ddp::internal::kCudaSuccess);
      std::fill(from.begin(), from.end(), 0.0f);
      CHECK(cuda.api.copy_async(to.data(), memory, kBytes, stream.handle()) == ddp::internal::kCudaSuccess);
      CHECK(to == std::vector<float>(kCount, round));
    }
  }
  cuda.api.release(memory);
}

TEST_CASE("streams have the highest priority") {
  const ddp::internal::CudaApi cuda = ddp::test::gpu_libraries()->cuda;
  cuda.set_device(0);
  const ddp::internal::CudaStream stream(cuda);
  int least = 0;
  int greatest = 0;
  int priority = 0;
  ddp::test::gpu_function<int(int*, int*)>("cuCtxGetStreamPriorityRange")(&least, &greatest);
  ddp::test::gpu_function<int(void*, int*)>("cuStreamGetPriority")(stream.handle(), &priority);
  CHECK(priority == greatest);
  CHECK(greatest < least);
}

// CUDA may do anything then. The other tests rely on this to notice it.
TEST_CASE("the simulated driver terminates a process that uses a destroyed stream") {
  if (ddp::test::on_real_gpu()) return;
  const ddp::internal::CudaApi cuda = ddp::test::gpu_libraries()->cuda;
  cuda.set_device(0);
  ddp::internal::CudaStreamHandle stream = nullptr;
  ddp::internal::CudaEventHandle event = nullptr;
  cuda.create_stream(stream);
  cuda.create_event(event, ddp::internal::kCudaUntimedEvent);
  cuda.destroy_stream(stream);
  const std::vector<std::function<int(void*)>> calls = {
      [&](void* handle) {
        bool captures = false;
        return cuda.is_capturing(handle, captures);
      },
      [&](void* handle) { return cuda.record_event(event, handle); },
      [&](void* handle) { return cuda.stream_wait_event(handle, event, 0); },
      [&](void* handle) { return cuda.fill_async(nullptr, 0, 0, handle); },
      [](void* handle) { return ddp::test::gpu_function<int(void*)>("cuStreamSynchronize")(handle); },
      [&](void* handle) { return cuda.destroy_stream(handle); }};
  for (const auto& call : calls) {
    const pid_t child = ::fork();
    if (child == 0) {
      std::signal(SIGABRT, SIG_DFL);
      ::close(STDERR_FILENO);
      call(stream);
      ::_exit(0);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT));
  }
  cuda.destroy_event(event);
}

TEST_CASE("an event is returned to the pool if it cannot be recorded or awaited") {
  CountedCuda cuda;
  int events = 0;
  ddp::test::replace(cuda.api.create_event,
                     [&, real = cuda.api.create_event](ddp::internal::CudaEventHandle& event, unsigned flags) {
                       ++events;
                       return real(event, flags);
                     });
  ddp::test::replace(cuda.api.destroy_event, [&, real = cuda.api.destroy_event](ddp::internal::CudaEventHandle event) {
    --events;
    return real(event);
  });
  const ddp::internal::CudaStream stream(cuda.api);
  bool is_recording = false;
  SECTION("recorded") {
    is_recording = true;
    ddp::test::replace(cuda.api.record_event, [](auto...) { return 999; });
  }
  SECTION("waited for") {
    ddp::test::replace(cuda.api.stream_wait_event, [](auto...) { return 999; });
  }
  {
    ddp::internal::CudaEvents pool(cuda.api);
    if (is_recording) CHECK_THROWS_AS(pool.record(stream.handle()), ddp::Error);
    CHECK_THROWS_AS(pool.order(stream.handle(), stream.handle()), ddp::Error);
    CHECK(events == 1);
  }
  CHECK(events == 0);
}

TEST_CASE("a per-thread default stream is rejected") {
  const auto per_thread = reinterpret_cast<ddp::internal::CudaStreamHandle>(std::uintptr_t{2});
  const CountedCuda cuda;
  ddp::test::expect_error(ddp::ErrorKind::invalid_argument,
                          {"all_reduce: cudaStreamPerThread", "cudaStreamCreateWithFlags"},
                          [&] { ddp::internal::require_usable_stream(cuda.api, per_thread, "all_reduce"); });
  CHECK_NOTHROW(ddp::internal::require_usable_stream(cuda.api, nullptr, "all_reduce"));
}

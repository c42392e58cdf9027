#include "runtime/backend/nccl/cuda_side_stream.h"

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/gpu_libraries.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

namespace {

std::shared_ptr<GpuHeap> heap_of(const std::shared_ptr<const GpuLibraries>& libraries) {
  return std::make_shared<GpuHeap>(libraries, 0, [] {});
}

}  // namespace

TEST_CASE("a side stream runs after the program's stream, and its times are available when it has finished") {
  const auto libraries = gpu_libraries();
  const CudaApi& cuda = libraries->cuda;
  cuda.set_device(0);
  const auto heap = heap_of(libraries);
  CudaSideStream side(std::shared_ptr<const CudaApi>(libraries, &cuda), 0, heap);
  CudaStream program(cuda);
  std::vector<float> values(1 << 20);
  const std::size_t bytes = values.size() * sizeof(float);
  const auto first = heap->allocate(bytes);
  const auto second = heap->allocate(bytes);
  for (float round = 1; round <= 5; ++round) {
    values.assign(values.size(), round);
    const SideStream::Mark before = side.mark(program.handle());
    cuda.copy_async(first.get(), values.data(), bytes, program.handle());
    side.order(program.handle(), side.handle());
    cuda.copy_async(second.get(), first.get(), bytes, side.handle());
    const SideStream::Mark after = side.mark(side.handle());
    CudaEvents(cuda).finish(side.handle(), kPatience);
    std::vector<float> copied(values.size());
    copy_now(cuda, copied.data(), second.get(), bytes);
    CHECK(copied == values);
    const auto seconds = side.seconds(before, after);
    REQUIRE(seconds);
    CHECK(*seconds > 0);
    // From the later mark to the earlier one, the time is not positive.
    CHECK(side.seconds(after, before).value_or(1) <= 0);
  }
}

TEST_CASE("a side stream serves threads that have not used the GPU") {
  const auto libraries = gpu_libraries();
  libraries->cuda.set_device(0);
  CudaSideStream side(std::shared_ptr<const CudaApi>(libraries, &libraries->cuda), 0, heap_of(libraries));
  SideStream::Mark mark;
  std::thread([&] {
    side.order(nullptr, side.handle());
    mark = side.mark(side.handle());
  }).join();
  CudaEvents(libraries->cuda).finish(side.handle(), kPatience);
  CHECK(side.seconds(mark, mark) == 0.0);
}

TEST_CASE("a side stream reuses CUDA events that are no longer needed") {
  const auto libraries = gpu_libraries();
  CudaApi& cuda = libraries->cuda;
  cuda.set_device(0);
  int made = 0;
  replace(cuda.create_event, [&made, create = cuda.create_event](CudaEventHandle& event, unsigned flags) {
    if (flags == kCudaTimedEvent) ++made;
    return create(event, flags);
  });
  SideStream::Mark last;
  {
    CudaSideStream side(std::shared_ptr<const CudaApi>(libraries, &cuda), 0, heap_of(libraries));
    for (int i = 0; i < 1000; ++i) last = side.mark(side.handle());
  }
  CHECK(made == 2);  // the last mark lives until the next one is there, and it may outlive its stream
}

TEST_CASE("memory outlives a side stream whose work uses it") {
  const auto libraries = gpu_libraries();
  CudaApi& cuda = libraries->cuda;
  cuda.set_device(0);
  std::atomic<int> destroyed = 0;
  const auto heap = heap_of(libraries);
  auto memory = heap->allocate(1 << 20);
  std::optional<CudaSideStream> side(std::in_place, std::shared_ptr<const CudaApi>(libraries, &cuda), 0, heap);
  const void* handle = side->handle();
  replace(cuda.destroy_stream, [&, handle, real = cuda.destroy_stream](CudaStreamHandle stream) {
    if (stream == handle) ++destroyed;
    return real(stream);
  });
  HeldStream held(side->handle());
  cuda.fill_async(memory.get(), 0, 1 << 20, side->handle());
  side.reset();
  memory.reset();
  CHECK_FALSE(heap->is_swept(std::chrono::milliseconds(20)));
  CHECK(destroyed == 0);
  held.release();
  CHECK(heap->is_swept(kPatience));
  CHECK(destroyed == 1);
  CHECK_NOTHROW(CudaEvents(cuda).finish(heap->copies(), kPatience));
}

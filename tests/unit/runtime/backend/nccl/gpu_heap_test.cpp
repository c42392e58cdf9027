#include "runtime/backend/nccl/gpu_heap.h"

#include <ddp/error.h>

#include <atomic>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/deadline.h"
#include "support/gpu_libraries.h"

using namespace std::chrono_literals;
using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

namespace {

constexpr std::size_t kLarge = std::size_t{1} << 20;  // bytes of an allocation of its own

// Holds a heap, a stream that it follows, and counts of what is freed.
struct Heap {
  std::shared_ptr<GpuLibraries> libraries = gpu_libraries();
  const CudaApi& cuda = libraries->cuda;
  std::shared_ptr<std::atomic<int>> allocated = std::make_shared<std::atomic<int>>(0);
  std::shared_ptr<std::atomic<int>> released = std::make_shared<std::atomic<int>>(0);
  std::shared_ptr<GpuHeap> heap;
  std::optional<CudaStream> stream;

  Heap() {
    cuda.set_device(0);
    replace(libraries->nccl.allocate,
            [count = allocated, real = libraries->nccl.allocate](void*& memory, std::size_t bytes) {
              ++*count;
              return real(memory, bytes);
            });
    replace(libraries->nccl.release, [count = released, real = libraries->nccl.release](void* memory) {
      const NcclResult result = real(memory);
      ++*count;
      return result;
    });
    heap = std::make_shared<GpuHeap>(libraries, 0, [] {});
    stream.emplace(cuda);
    heap->follow(stream->handle());
  }
};

}  // namespace

TEST_CASE("memory that a stream still uses is freed when the stream has finished") {
  Heap on;
  std::shared_ptr<void> memory = on.heap->allocate(kLarge);
  HeldStream held(on.stream->handle());
  on.cuda.fill_async(memory.get(), 0, kLarge, on.stream->handle());
  memory.reset();
  // Another block, which only one other stream uses, goes the whole way in the meantime.
  CudaStream other(on.cuda);
  on.heap->allocate(kLarge, other.handle()).reset();
  CHECK(eventually([&] { return *on.released == 1; }));
  held.release();
  CHECK(eventually([&] { return *on.released == 2; }));
  CHECK_NOTHROW(CudaEvents(on.cuda).finish(on.stream->handle(), kPatience));
}

TEST_CASE("memory used by a single stream waits only for that stream and its own clearing") {
  Heap on;
  std::optional<CudaStream> only(std::in_place, on.cuda);
  std::shared_ptr<void> memory = on.heap->allocate(kLarge, only->handle());
  HeldStream held(only->handle());
  on.cuda.fill_async(memory.get(), 0, kLarge, only->handle());
  memory.reset();
  only.reset();
  CHECK_FALSE(on.heap->is_swept(20ms));
  CHECK(*on.released == 0);
  held.release();
  CHECK(on.heap->is_swept(kPatience));
  CHECK(*on.released == 1);
}

TEST_CASE("memory waits for the work of a stream that was forgotten and destroyed") {
  Heap on;
  const bool is_given_back_before = GENERATE(false, true);
  std::shared_ptr<void> memory = on.heap->allocate(kLarge);
  std::optional<HeldStream> held(std::in_place, on.stream->handle());
  on.cuda.fill_async(memory.get(), 0, kLarge, on.stream->handle());
  if (is_given_back_before) memory.reset();
  CHECK(on.heap->forget(on.stream->handle()));
  on.stream.reset();
  memory.reset();
  CHECK_FALSE(on.heap->is_swept(20ms));
  CHECK(*on.released == 0);
  held.reset();
  CHECK(on.heap->is_swept(kPatience));
  CHECK(*on.released == 1);
  // The stream is not asked again, and its mark does not stay.
  on.heap->allocate(kLarge).reset();
  CHECK(on.heap->is_swept(kPatience));
  CHECK(on.heap->forget(on.heap->copies()));
}

TEST_CASE("a stream that captures a graph is not forgotten before the capture has ended") {
  Heap on;
  std::shared_ptr<void> memory = on.heap->allocate(kLarge);
  REQUIRE(gpu_function<int(void*, int)>("cuStreamBeginCapture_v2")(on.stream->handle(), 0) == kCudaSuccess);
  memory.reset();  // waits for the end of the capture
  CHECK_FALSE(on.heap->forget(on.stream->handle()));
  void* graph = nullptr;
  CHECK(gpu_function<int(void*, void**)>("cuStreamEndCapture")(on.stream->handle(), &graph) == kCudaSuccess);
  CHECK(on.heap->forget(on.stream->handle()));
  on.stream.reset();
  CHECK(on.heap->is_swept(kPatience));
  CHECK(*on.released == 1);
}

TEST_CASE("page-locked memory is freed after its streams, and a blocked free delays no other thread") {
  if (on_real_gpu()) return;
  Heap on;
  const auto hang = gpu_function<void(const char*)>("fake_gpu_hang");
  hang("cuMemFreeHost");
  on.heap->allocate_pinned(16).reset();
  CHECK(on.heap->allocate(kLarge) != nullptr);
  CHECK_FALSE(on.heap->is_swept(0s));
  hang(nullptr);
  CHECK(on.heap->is_swept(kPatience));
}

TEST_CASE("after an error of the GPU memory is neither freed nor awaited") {
  Heap on;
  constexpr CudaStatus kLaunchFailed = 719;
  std::atomic<bool> fails = false;
  replace(on.libraries->cuda.get_capture_status,
          [&, real = on.cuda.get_capture_status](CudaStreamHandle stream, int& captures) {
            return fails ? kLaunchFailed : real(stream, captures);
          });
  std::shared_ptr<void> first = on.heap->allocate(kLarge);
  std::shared_ptr<void> second = on.heap->allocate(kLarge);
  fails = true;
  SECTION("that shows when memory is given back") {
    first.reset();
  }
  SECTION("that shows when a stream is forgotten") {
    CHECK(on.heap->forget(on.stream->handle()));
  }
  CHECK(on.heap->is_swept(kPatience));
  // It is unknown whether streams still use the memory.
  fails = false;
  first.reset();
  second.reset();
  CHECK(on.heap->is_swept(kPatience));
  CHECK(*on.released == 0);
}

TEST_CASE("memory is kept while a stream that may use it captures a graph") {
  Heap on;
  const auto begin = gpu_function<int(void*, int)>("cuStreamBeginCapture_v2");
  const auto end = gpu_function<int(void*, void**)>("cuStreamEndCapture");
  std::shared_ptr<void> memory = on.heap->allocate(kLarge);
  REQUIRE(begin(on.stream->handle(), 0) == kCudaSuccess);
  memory.reset();
  // Memory can be allocated, and freed for other streams, without harm to the capture.
  CHECK(on.heap->allocate(kLarge) != nullptr);
  CHECK_FALSE(on.heap->is_swept(20ms));
  void* graph = nullptr;
  CHECK(end(on.stream->handle(), &graph) == kCudaSuccess);
  CHECK(on.heap->is_swept(kPatience));
  CHECK(*on.released == 2);
}

TEST_CASE("small blocks share an allocation, are zeroed, and may outlive the heap") {
  Heap on;
  std::vector<std::shared_ptr<void>> blocks;
  std::set<void*> places;
  for (int i = 0; i < 100; ++i) {
    blocks.push_back(on.heap->allocate(1000));
    places.insert(blocks.back().get());
    on.cuda.fill_async(blocks.back().get(), 0, 1000, on.stream->handle());
  }
  CHECK(places.size() == 100);
  CHECK(*on.allocated == 1);
  const std::vector<char> ones(1000, 1);
  copy_now(on.cuda, blocks[7].get(), ones.data(), 1000);
  void* place = blocks[7].get();
  blocks[7].reset();
  CHECK(on.heap->is_swept(kPatience));
  blocks[7] = on.heap->allocate(600);
  CHECK(blocks[7].get() == place);
  std::vector<char> values(600, 1);
  copy_now(on.cuda, values.data(), blocks[7].get(), 600);
  CHECK(values == std::vector<char>(600, 0));
  on.heap.reset();
  CHECK(*on.released == 0);
  blocks.clear();
  CHECK(eventually([&] { return *on.released == 1; }));
}

TEST_CASE("an allocation on a full GPU waits for memory that is being freed") {
  Heap on;
  HeldStream held(on.stream->handle());
  std::shared_ptr<void> memory = on.heap->allocate(kLarge);
  on.libraries->nccl.allocate = {};
  std::atomic<int> tries = 0;
  replace(on.libraries->cuda.allocate, [&, real = on.cuda.allocate](void*& block, std::size_t bytes) {
    if (++tries > 1) return *on.released == 0 ? 2 : real(block, bytes);
    held.release();
    return 2;
  });
  memory.reset();
  CHECK(on.heap->allocate(kLarge) != nullptr);
  CHECK(tries == 2);
}

TEST_CASE("memory is freed only after its registration has ended") {
  Heap on;
  std::atomic<int> asked = 0;
  on.heap->register_with([&](void*, std::size_t) -> HeapTask {
    return [&] {
      // The communicator is busy at first.
      if (++asked < 3) return false;
      CHECK(*on.released == 0);
      return true;
    };
  });
  on.heap->allocate(kLarge).reset();
  CHECK(on.heap->is_swept(kPatience));
  CHECK(asked == 3);
  CHECK(*on.released == 1);
}

TEST_CASE("memory of an interrupted allocation is freed after it was cleared") {
  Heap on;
  on.heap =
      std::make_shared<GpuHeap>(on.libraries, 0, [] { throw Error(ErrorKind::aborted, "the group was aborted"); });
  HeldStream held(on.heap->copies());
  CHECK_THROWS_WITH(on.heap->allocate(kLarge), "the group was aborted");
  CHECK_FALSE(on.heap->is_swept(20ms));
  CHECK(*on.released == 0);
  held.release();
  CHECK(on.heap->is_swept(kPatience));
  CHECK(*on.released == 1);
  CHECK_NOTHROW(CudaEvents(on.cuda).finish(on.heap->copies(), kPatience));
}

TEST_CASE("a heap whose GPU is lost ends without freeing its memory") {
  Heap on;
  const std::shared_ptr<std::atomic<int>> entered = std::make_shared<std::atomic<int>>(0);
  on.heap->allocate(16).reset();
  CHECK(on.heap->is_swept(kPatience));
  on.stream.reset();
  replace(on.libraries->cuda.use_context, [entered](CudaContextHandle) {
    ++*entered;
    return 700;
  });
  on.heap.reset();
  // The heap, and the thread that would free its memory.
  CHECK(eventually([&] { return *entered == 2; }));
  std::this_thread::sleep_for(20ms);
  CHECK(*on.released == 0);
}

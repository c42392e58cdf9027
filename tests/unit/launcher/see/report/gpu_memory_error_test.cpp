#include "launcher/see/report/gpu_memory_error.h"

#include <random>
#include <string>

#include "support/catch.h"

using namespace ddp::launcher;
using Source = GpuMemoryError::Source;

namespace {

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;

std::uint64_t gib(double value) {
  return static_cast<std::uint64_t>(value * 1024 * static_cast<double>(kMib) + 0.5);
}

}  // namespace

TEST_CASE("the numbers in PyTorch's out-of-memory error are parsed") {
  const auto error = find_gpu_memory_error(
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.15 GiB "
      "of which 1.31 GiB is free. Process 4711 has 20.50 GiB memory in use. Process 12 has 512.00 MiB memory in use. "
      "Including non-PyTorch memory, this process has 57.12 GiB memory in use. 70.00 GiB allowed; Of the allocated "
      "memory 50.79 GiB is allocated by PyTorch, with 12.00 MiB allocated in private pools (e.g., CUDA Graphs), and "
      "4.96 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting X.");
  REQUIRE(error.has_value());
  CHECK(error->source == Source::pytorch);
  CHECK(error->device == 1);
  CHECK(error->asked_bytes == gib(2));
  CHECK(error->total_bytes == gib(79.15));
  CHECK(error->free_bytes == gib(1.31));
  CHECK(error->own_bytes == gib(57.12));
  CHECK(error->unused_bytes == gib(4.96));
  CHECK(error->others == std::vector<GpuMemoryError::Other>{{4711, gib(20.5)}, {12, 512 * kMib}});
}

TEST_CASE("out-of-memory errors of older PyTorch versions are parsed") {
  const auto misspelt = find_gpu_memory_error(
      "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 KiB. GPU 0 has a total capacty of "
      "7.92 "
      "GiB of which 0 bytes is free. ");
  REQUIRE(misspelt.has_value());
  CHECK(misspelt->asked_bytes == 512 * 1024);
  CHECK(misspelt->total_bytes == gib(7.92));
  CHECK(misspelt->free_bytes == 0);
  CHECK_FALSE(misspelt->own_bytes.has_value());
  const auto list = find_gpu_memory_error(
      "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 3; 10.76 GiB total capacity; 9.51 GiB "
      "already "
      "allocated; 14.75 MiB free; 9.71 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory");
  REQUIRE(list.has_value());
  CHECK(list->source == Source::pytorch);
  CHECK(list->device == 3);
  CHECK(list->asked_bytes == 20 * kMib);
  CHECK(list->total_bytes == gib(10.76));
  CHECK(list->free_bytes == 15466496);
  CHECK(list->own_bytes == gib(9.71));
  CHECK(list->unused_bytes == gib(9.71) - gib(9.51));
}

TEST_CASE("rarer out-of-memory errors of PyTorch are parsed as far as they have numbers") {
  const auto oldest = find_gpu_memory_error(
      "RuntimeError: CUDA out of memory. Tried to allocate 1024.00 MiB (GPU 0; 15.90 GiB total capacity; 14.25 GiB "
      "already allocated; 991.56 MiB free; 607.00 KiB cached)");
  REQUIRE(oldest.has_value());
  CHECK(oldest->asked_bytes == 1024 * kMib);
  CHECK(oldest->own_bytes == gib(14.25));
  CHECK_FALSE(oldest->unused_bytes.has_value());
  const auto limited = find_gpu_memory_error(
      "torch.OutOfMemoryError: CUDA out of memory. Allocation was preemptively rejected because it would exceed "
      "per_process_memory_fraction limit. Requested size: 3.00 GiB");
  REQUIRE(limited.has_value());
  CHECK(limited->asked_bytes == gib(3));
  const auto absurd = find_gpu_memory_error("CUDA out of memory. Tried to allocate more than 1EB memory.");
  REQUIRE(absurd.has_value());
  CHECK_FALSE(absurd->asked_bytes.has_value());
}

TEST_CASE("the numbers in the runtime's out-of-memory error are parsed") {
  const auto error = find_gpu_memory_error(
      "ddp::Error (unavailable): out of GPU memory: 1.5 GiB were requested on GPU 2, where 12 MiB of 79 GiB are free "
      "(CUDA_ERROR_OUT_OF_MEMORY). Use a smaller batch");
  REQUIRE(error.has_value());
  CHECK(error->source == Source::runtime);
  CHECK(error->device == 2);
  CHECK(error->asked_bytes == gib(1.5));
  CHECK(error->free_bytes == 12 * kMib);
  CHECK(error->total_bytes == gib(79));
}

TEST_CASE("out-of-memory errors without numbers are found by their names") {
  struct Case {
    const char* text;
    std::optional<Source> source;
  };
  const Case cases[] = {
      {"train.cu:7: cudaErrorMemoryAllocation", Source::cuda},
      {"RuntimeError: CUDA error: out of memory", Source::cuda},
      {"cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY", Source::cuda},
      {"a:1:2 [0] NCCL WARN Cuda failure 2 'out of memory'", Source::nccl},
      {"transport.cc:1 NCCL WARN Cuda failure 'out of memory'", Source::nccl},
      {"RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", Source::cublas},
      {"RuntimeError: [enforce fail] DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes.",
       std::nullopt},
      {"MemoryError", std::nullopt},
      {"", std::nullopt},
  };
  for (const Case& expected : cases) {
    CAPTURE(expected.text);
    const auto error = find_gpu_memory_error(expected.text);
    REQUIRE(error.has_value() == expected.source.has_value());
    if (error) CHECK(error->source == *expected.source);
  }
}

TEST_CASE("the last of several errors counts, and one with numbers is preferred") {
  const std::string first = "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total\n";
  const std::string second = "CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total\n";
  CHECK(find_gpu_memory_error(first + second)->asked_bytes == gib(3));
  CHECK(find_gpu_memory_error(first + "CUDA_ERROR_OUT_OF_MEMORY")->asked_bytes == gib(1));
  CHECK(find_gpu_memory_error("NCCL WARN Cuda failure 2 'out of memory'\nCUBLAS_STATUS_ALLOC_FAILED")->source ==
        Source::cublas);
}

TEST_CASE("a damaged error text does no harm") {
  const std::string whole =
      "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.31 GiB is "
      "free. Process 4711 has 20.50 GiB memory in use. and 4.96 GiB is reserved by PyTorch but unallocated.";
  for (std::size_t size = 0; size <= whole.size(); ++size) (void)find_gpu_memory_error(whole.substr(0, size));
  const auto huge =
      find_gpu_memory_error("CUDA out of memory. Tried to allocate 99999999999.9 PiB. GPU 99999999999 has");
  REQUIRE(huge.has_value());
  CHECK_FALSE(huge->asked_bytes.has_value());
  CHECK_FALSE(huge->device.has_value());
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string text = whole;
    for (int change = 0; change < 4; ++change) text[random() % text.size()] = static_cast<char>(random() % 256);
    (void)find_gpu_memory_error(text);
  }
}

// Tests how the driver in software (support/fake_gpu) runs kernels, and what it refuses.
#include <dlfcn.h>

#include <array>

#include "support/catch.h"
#include "support/gpu_libraries.h"

using namespace ddp;
using namespace ddp::test;

namespace {

constexpr const char* kHead = ".version 6.3\n.target sm_75\n.address_size 64\n";

// Writes the sum of the indices of a block's threads to an array, with an element for each block.
constexpr const char* kSumOfIndices = R"(
.visible .entry sum(.param .u64 to, .param .u32 shift) {
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  .reg .b64 %rd<6>;
  .shared .align 4 .b8 partial[4];
  mov.u32 %r0, %tid.x;
  setp.ne.s32 %p0, %r0, 0;
  mov.u64 %rd1, partial;
  @%p0 bra ADD;
  st.shared.u32 [partial], 0;
ADD:
  bar.sync 0;
  atom.shared.add.u32 %r1, [%rd1], %r0;
  bar.sync 0;
  @%p0 bra END;
  ld.param.u64 %rd2, [to];
  ld.param.u32 %r3, [shift];
  mov.u32 %r2, %ctaid.x;
  mul.wide.u32 %rd3, %r2, 4;
  add.s64 %rd4, %rd2, %rd3;
  cvt.u64.u32 %rd5, %r3;
  add.s64 %rd4, %rd4, %rd5;
  ld.shared.u32 %r1, [%rd1+0];
  st.global.u32 [%rd4], %r1;
END:
  ret;
}
)";

struct Driver {
  CudaApi cuda = gpu_libraries()->cuda;
  CudaModuleHandle module = nullptr;
  CudaFunctionHandle sum = nullptr;
  CudaStream stream;

  Driver() : stream((cuda.set_device(0), cuda)) {
    REQUIRE(cuda.load_module(module, (std::string(kHead) + kSumOfIndices).c_str()) == kCudaSuccess);
    REQUIRE(cuda.find_function(sum, module, "sum") == kCudaSuccess);
  }
  CudaStatus start(void* to, std::uint32_t shift, unsigned blocks, unsigned threads = 100) const {
    std::array<void*, 2> parameters = {&to, &shift};
    return cuda.launch_kernel(sum, blocks, 1, 1, threads, 1, 1, 0, stream.handle(), parameters.data(), nullptr);
  }
  // Returns the error of the kernel that runs, and repairs the device.
  std::string error() const {
    std::string text;
    try {
      CudaEvents(cuda).finish(stream.handle(), kPatience);
    } catch (const Error& error) {
      text = error.what();
    }
    void* library = ::dlopen(gpu_library("libcuda.so.1").c_str(), RTLD_NOW | RTLD_NOLOAD);
    const auto repair = reinterpret_cast<void (*)(int, int)>(::dlsym(library, "fake_gpu_break"));
    repair(0, 0);
    return text;
  }
};

CudaStatus load(const std::string& body) {
  const Driver driver;
  CudaModuleHandle module = nullptr;
  return driver.cuda.load_module(module, (kHead + body).c_str());
}

}  // namespace

TEST_CASE("threads of a block wait for each other at a barrier, and blocks share no memory") {
  if (on_real_gpu()) return;
  const Driver driver;
  constexpr unsigned kBlocks = 5;
  void* memory = nullptr;
  REQUIRE(driver.cuda.allocate(memory, kBlocks * 4) == kCudaSuccess);
  REQUIRE(driver.start(memory, 0, kBlocks) == kCudaSuccess);
  CHECK(driver.error().empty());
  std::array<std::uint32_t, kBlocks> sums{};
  copy_now(driver.cuda, sums.data(), memory, sizeof sums);
  for (const std::uint32_t sum : sums) CHECK(sum == 99 * 100 / 2);
  driver.cuda.release(memory);
}

TEST_CASE("a kernel that accesses memory outside of the device breaks the device") {
  if (on_real_gpu()) return;
  const Driver driver;
  void* memory = nullptr;
  REQUIRE(driver.cuda.allocate(memory, 8) == kCudaSuccess);
  REQUIRE(driver.start(memory, 0, 3) == kCudaSuccess);
  CHECK_THAT(driver.error(), Catch::Contains("CUDA_ERROR_ILLEGAL_ADDRESS"));
  std::array<std::uint32_t, 2> on_host{};
  REQUIRE(driver.start(on_host.data(), 0, 1) == kCudaSuccess);
  CHECK_THAT(driver.error(), Catch::Contains("CUDA_ERROR_ILLEGAL_ADDRESS"));
  REQUIRE(driver.start(memory, 2, 1) == kCudaSuccess);
  CHECK_THAT(driver.error(), Catch::Contains("CUDA_ERROR_MISALIGNED_ADDRESS"));
  CHECK(on_host == std::array<std::uint32_t, 2>{});
  driver.cuda.release(memory);
}

TEST_CASE("a launch without blocks, with too many threads or with a missing parameter is rejected") {
  if (on_real_gpu()) return;
  constexpr CudaStatus kInvalidValue = 1;
  const Driver driver;
  CHECK(driver.start(nullptr, 0, 0) == kInvalidValue);
  CHECK(driver.start(nullptr, 0, 1, 0) == kInvalidValue);
  CHECK(driver.start(nullptr, 0, 1, 1025) == kInvalidValue);
  std::array<void*, 2> parameters = {};
  CHECK(driver.cuda.launch_kernel(driver.sum, 1, 1, 1, 1, 1, 1, 0, driver.stream.handle(), parameters.data(),
                                  nullptr) == kInvalidValue);
}

TEST_CASE("text with an unknown instruction, register, label or parameter is not a module") {
  if (on_real_gpu()) return;
  constexpr CudaStatus kInvalidPtx = 218;
  CHECK(load(".visible .entry k() { ret; }") == kCudaSuccess);
  CHECK(load("") == kInvalidPtx);
  CHECK(load(".visible .entry k() { ret;") == kInvalidPtx);
  CHECK(load(".visible .entry k() { tanh.approx.f32 %f1, %f2; }") == kInvalidPtx);
  CHECK(load(".visible .entry k() { mov.u32 %r0, 1; }") == kInvalidPtx);
  CHECK(load(".visible .entry k() { bra NOWHERE; }") == kInvalidPtx);
  CHECK(load(".visible .entry k() { .reg .b64 %rd<1>; ld.param.u64 %rd0, [p]; }") == kInvalidPtx);
  // A multiplication without a rounding may be contracted with an addition.
  CHECK(load(".visible .entry k() { .reg .f32 %f<1>; mul.rn.f32 %f0, %f0, %f0; }") == kCudaSuccess);
  CHECK(load(".visible .entry k() { .reg .f32 %f<1>; mul.f32 %f0, %f0, %f0; }") == kInvalidPtx);
  const Driver driver;
  CudaFunctionHandle function = nullptr;
  CHECK(driver.cuda.find_function(function, driver.module, "other") == 500);
}

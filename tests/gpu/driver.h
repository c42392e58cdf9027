// Calls the CUDA driver by the names of its functions, and occupies a GPU. Nothing of CUDA's toolkit is needed.
#pragma once

#include <dlfcn.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <thread>

namespace ddp::gpu {

using Handle = void*;                // CUstream, CUevent, CUmodule, CUfunction
using Address = unsigned long long;  // CUdeviceptr

inline constexpr int kMissing = -1;  // the status of a function that the library does not have
inline constexpr std::uint64_t kEndless = std::uint64_t{1} << 61;

// Runs for `nanoseconds`, and reads from `address` all the time unless that is 0.
inline constexpr const char* kSpinPtx = R"(
.version 6.3
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 address, .param .u64 nanoseconds)
{
  .reg .pred %at_end, %no_address;
  .reg .b32 %value;
  .reg .b64 %address, %limit, %begin, %now;
  ld.param.u64 %address, [address];
  ld.param.u64 %limit, [nanoseconds];
  setp.eq.u64 %no_address, %address, 0;
  mov.u64 %begin, %globaltimer;
again:
  @!%no_address ld.volatile.global.u32 %value, [%address];
  mov.u64 %now, %globaltimer;
  sub.u64 %now, %now, %begin;
  setp.ge.u64 %at_end, %now, %limit;
  @!%at_end bra again;
  ret;
}
)";

class Driver {
 public:
  // Returns the function's status, or kMissing. The types of the arguments must be exactly those of cuda.h.
  template <typename... Arguments>
  int call(const char* function, Arguments... arguments) const {
    void* found = library_ == nullptr ? nullptr : ::dlsym(library_, function);
    return found == nullptr ? kMissing : reinterpret_cast<int (*)(Arguments...)>(found)(arguments...);
  }

 private:
  void* library_ = ::dlopen("libcuda.so.1", RTLD_NOW);
};

// Puts endless or long work on streams. The calling thread must have a current context.
class Spinner {
 public:
  explicit Spinner(const Driver& driver) : driver_(driver) {
    Handle module = nullptr;
    if (driver_.call("cuModuleLoadData", &module, static_cast<const void*>(kSpinPtx)) != 0) return;
    if (driver_.call("cuModuleGetFunction", &kernel_, module, "spin") != 0) kernel_ = nullptr;
  }

  // Returns whether kernels run here. In the simulated GPU a host function takes the time instead.
  bool has_kernel() const { return kernel_ != nullptr; }

  int start(Handle stream, std::uint64_t nanoseconds, Address address = 0) const {
    if (kernel_ == nullptr) {
      const auto sleep = +[](void* data) {
        std::this_thread::sleep_for(std::chrono::nanoseconds(reinterpret_cast<std::uintptr_t>(data)));
      };
      // NOLINTNEXTLINE(performance-no-int-to-ptr): the argument is a number
      return driver_.call("cuLaunchHostFunc", stream, sleep, reinterpret_cast<void*>(nanoseconds));
    }
    void* parameters[] = {&address, &nanoseconds};
    return driver_.call("cuLaunchKernel", kernel_, 1U, 1U, 1U, 1U, 1U, 1U, 0U, stream, static_cast<void**>(parameters),
                        static_cast<void**>(nullptr));
  }

 private:
  const Driver& driver_;
  Handle kernel_ = nullptr;
};

}  // namespace ddp::gpu

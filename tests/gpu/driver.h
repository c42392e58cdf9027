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

// Runs for `nanoseconds`.
inline constexpr const char* kSpinPtx = R"(
.version 6.3
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 nanoseconds)
{
  .reg .pred %at_end;
  .reg .b64 %limit, %begin, %now;
  ld.param.u64 %limit, [nanoseconds];
  mov.u64 %begin, %globaltimer;
again:
  mov.u64 %now, %globaltimer;
  sub.u64 %now, %now, %begin;
  setp.ge.u64 %at_end, %now, %limit;
  @!%at_end bra again;
  ret;
}
)";

// Writes four bytes.
inline constexpr const char* kWritePtx = R"(
.version 6.3
.target sm_70
.address_size 64
.visible .entry write(.param .u64 address)
{
  .reg .b32 %value;
  .reg .b64 %address;
  ld.param.u64 %address, [address];
  mov.u32 %value, 1;
  st.global.u32 [%address], %value;
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

// Puts kernels on streams. The calling thread must have a current context.
class Kernels {
 public:
  explicit Kernels(const Driver& driver)
      : driver_(driver), spin_(load(kSpinPtx, "spin")), write_(load(kWritePtx, "write")) {}

  // Returns whether spin() is a kernel. On the simulated GPU a host function takes the time instead.
  bool can_spin() const { return spin_ != nullptr; }
  bool can_write() const { return write_ != nullptr; }

  int spin(Handle stream, std::uint64_t nanoseconds) const {
    if (spin_ != nullptr) return launch(spin_, stream, nanoseconds);
    const auto sleep = +[](void* data) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(reinterpret_cast<std::uintptr_t>(data)));
    };
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the argument is a number
    return driver_.call("cuLaunchHostFunc", stream, sleep, reinterpret_cast<void*>(nanoseconds));
  }

  int write(Handle stream, Address address) const {
    return write_ == nullptr ? kMissing : launch(write_, stream, address);
  }

 private:
  Handle load(const char* ptx, const char* name) const {
    Handle module = nullptr;
    Handle kernel = nullptr;
    if (driver_.call("cuModuleLoadData", &module, static_cast<const void*>(ptx)) != 0) return nullptr;
    return driver_.call("cuModuleGetFunction", &kernel, module, name) == 0 ? kernel : nullptr;
  }

  template <typename Parameter>
  int launch(Handle kernel, Handle stream, Parameter parameter) const {
    void* parameters[] = {&parameter};
    return driver_.call("cuLaunchKernel", kernel, 1U, 1U, 1U, 1U, 1U, 1U, 0U, stream, static_cast<void**>(parameters),
                        static_cast<void**>(nullptr));
  }

  const Driver& driver_;
  const Handle spin_;
  const Handle write_;
};

}  // namespace ddp::gpu

// KernelParameter is a parameter of a kernel for GPUs.
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>

namespace ddp::internal {

// The value is as large as its type.
struct KernelParameter {
  const void* value = nullptr;
  std::string_view type;  // in PTX: "u32", "u64" (pointers too) or "f64"
};

// `value` must outlive the result.
template <typename T>
KernelParameter kernel_parameter(const T& value) {
  if constexpr (std::is_same_v<T, double>) {
    return {&value, "f64"};
  } else if constexpr (std::is_same_v<T, std::uint32_t>) {
    return {&value, "u32"};
  } else {
    static_assert(std::is_pointer_v<T> || std::is_same_v<T, std::uint64_t>);
    return {&value, "u64"};
  }
}

}  // namespace ddp::internal

// These tables give the names of operations, types and reductions by their numbers on the status page.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ddp::wire {

// The names are in the order of enum Operation of runtime/call/call.h.
inline constexpr std::array<std::string_view, 11> kOperationNames = {
    "all_reduce",     "reduce",     "broadcast", "all_gather", "gather", "scatter",
    "reduce_scatter", "all_to_all", "barrier",   "send",       "recv"};
// The names are in the order of enum DataType.
inline constexpr std::array<std::string_view, 10> kTypeNames = {"f16", "bf16", "f32", "f64", "i8",
                                                                "i16", "i32",  "i64", "u8",  "bool"};
// The names are in the order of enum ReduceOp::Kind.
inline constexpr std::array<std::string_view, 9> kReductionNames = {
    "sum", "average", "product", "min", "max", "bit_and", "bit_or", "bit_xor", "premultiplied_sum"};

// Returns "?" for a number without a name, because a page may contain anything.
template <std::size_t N>
constexpr std::string_view name_of(const std::array<std::string_view, N>& names, std::uint64_t number) {
  return number < N ? names[number] : "?";
}

// Returns the number of a name, or the count of the names if it is none of them.
template <std::size_t N>
constexpr std::uint8_t number_of(const std::array<std::string_view, N>& names, std::string_view name) {
  std::size_t number = 0;
  while (number < N && names[number] != name) ++number;
  return static_cast<std::uint8_t>(number);
}

}  // namespace ddp::wire

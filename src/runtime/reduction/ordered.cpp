#include "runtime/reduction/ordered.h"

#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/check.h"

namespace ddp::internal {
namespace {

// The bits of positive values are in the order of the values. Applied twice, the function returns its argument.
template <typename Bits>
Bits in_order(Bits bits) {
  return bits < 0 ? static_cast<Bits>(bits ^ std::numeric_limits<Bits>::max()) : bits;
}

// Calls function(bits of infinity), whose type is the integer with the size of an element.
template <typename Function>
void with_bits(DataType type, const Function& function) {
  switch (type) {
    case DataType::f16:
      return function(std::int16_t{0x7c00});
    case DataType::bf16:
      return function(std::int16_t{0x7f80});
    case DataType::f32:
      return function(std::int32_t{0x7f800000});
    case DataType::f64:
      return function(std::int64_t{0x7ff0000000000000});
    default:
      DDP_CHECK(false, to_string(type));
  }
}

template <typename Bits>
using Ordered = std::conditional_t<sizeof(Bits) == 8, std::int64_t, std::int32_t>;

}  // namespace

void to_ordered(const ConstBuffer& from, bool nan_is_largest, const Buffer& to) {
  DDP_CHECK(from.count == to.count && to.type == ordered_type(from.type), from.count, to.count, to_string(to.type));
  with_bits(from.type, [&](auto infinity) {
    using Bits = decltype(infinity);
    using Limits = std::numeric_limits<Bits>;
    const Bits nan = nan_is_largest ? Limits::max() : Limits::min();
    const auto* values = static_cast<const Bits*>(from.data);
    auto* ordered = static_cast<Ordered<Bits>*>(to.data);
    for (std::size_t i = 0; i < to.count; ++i) {
      ordered[i] = (values[i] & Limits::max()) > infinity ? nan : in_order(values[i]);
    }
  });
}

void from_ordered(const ConstBuffer& from, const Buffer& to) {
  DDP_CHECK(from.count == to.count && from.type == ordered_type(to.type), from.count, to.count, to_string(from.type));
  with_bits(to.type, [&](auto infinity) {
    using Bits = decltype(infinity);
    const auto* ordered = static_cast<const Ordered<Bits>*>(from.data);
    auto* values = static_cast<Bits*>(to.data);
    for (std::size_t i = 0; i < to.count; ++i) values[i] = in_order(static_cast<Bits>(ordered[i]));
  });
}

}  // namespace ddp::internal

// DataType is the type of a buffer's elements. Float16 and BFloat16 are the two types that C++20 lacks.
#pragma once

#include <ddp/export.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ddp {

enum class DataType : std::uint8_t { f16, bf16, f32, f64, i8, i16, i32, i64, u8, boolean };

// Lists every type, in the order of the enumeration.
inline constexpr std::array kDataTypes = {DataType::f16, DataType::bf16,   DataType::f32, DataType::f64,
                                          DataType::i8,  DataType::i16,    DataType::i32, DataType::i64,
                                          DataType::u8,  DataType::boolean};

// Returns the bytes of one element.
constexpr std::size_t size_of(DataType type) {
  constexpr std::array<std::uint8_t, kDataTypes.size()> kSizes = {2, 2, 4, 8, 1, 2, 4, 8, 1, 1};
  return kSizes[static_cast<std::size_t>(type)];
}

constexpr bool is_floating_point(DataType type) {
  return type == DataType::f16 || type == DataType::bf16 || type == DataType::f32 || type == DataType::f64;
}

// Returns the enumerator's name, such as "f32"; it returns "bool" for boolean.
DDP_EXPORT std::string_view to_string(DataType type);

// This value type is an IEEE 754 binary16 number: 1 sign, 5 exponent and 10 fraction bits. Conversion rounds to nearest
// even, and values beyond 65504 become infinity.
struct Float16 {
  std::uint16_t bits = 0;

  Float16() = default;
  explicit Float16(float value) : bits(bits_of(value)) {}
  explicit operator float() const;

  friend bool operator==(Float16 a, Float16 b) { return static_cast<float>(a) == static_cast<float>(b); }

 private:
  static std::uint16_t bits_of(float value);
};

// This value type is the upper half of a float: 1 sign, 8 exponent and 7 fraction bits. Conversion rounds to nearest
// even.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  explicit BFloat16(float value) : bits(bits_of(value)) {}
  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

  friend bool operator==(BFloat16 a, BFloat16 b) { return static_cast<float>(a) == static_cast<float>(b); }

 private:
  static std::uint16_t bits_of(float value) {
    const auto whole = std::bit_cast<std::uint32_t>(value);
    if ((whole & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((whole >> 16) | 0x40U);  // NaN
    return static_cast<std::uint16_t>((whole + 0x7fffU + ((whole >> 16) & 1U)) >> 16);
  }
};

// Scaling by powers of two makes the floating-point unit normalise numbers without a hidden bit.
inline Float16::operator float() const {
  const std::uint32_t magnitude = static_cast<std::uint32_t>(bits & 0x7fffU) << 13;
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const bool special = (bits & 0x7c00U) == 0x7c00U;  // infinity, NaN
  const float finite = std::bit_cast<float>(magnitude) * 0x1.0p+112F;
  const std::uint32_t value = special ? magnitude | 0x7f800000U : std::bit_cast<std::uint32_t>(finite);
  return std::bit_cast<float>(value | sign);
}

inline std::uint16_t Float16::bits_of(float value) {
  const auto whole = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((whole >> 16) & 0x8000U);
  const std::uint32_t magnitude = whole & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return sign | 0x7e00U;   // NaN
  if (magnitude >= 0x477ff000U) return sign | 0x7c00U;  // rounds to 2^16 or more
  // Below the smallest normal number, adding 2^-1 puts the result into the last bits, rounded by the floating-point
  // unit.
  if (magnitude < 0x38800000U) {
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U));
  }
  const std::uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13) & 1U);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000U) >> 13));
}

// Maps a C++ type to its DataType.
template <typename T>
struct DataTypeOf;
template <>
struct DataTypeOf<Float16> {
  static constexpr DataType value = DataType::f16;
};
template <>
struct DataTypeOf<BFloat16> {
  static constexpr DataType value = DataType::bf16;
};
template <>
struct DataTypeOf<float> {
  static constexpr DataType value = DataType::f32;
};
template <>
struct DataTypeOf<double> {
  static constexpr DataType value = DataType::f64;
};
template <>
struct DataTypeOf<std::int8_t> {
  static constexpr DataType value = DataType::i8;
};
template <>
struct DataTypeOf<std::int16_t> {
  static constexpr DataType value = DataType::i16;
};
template <>
struct DataTypeOf<std::int32_t> {
  static constexpr DataType value = DataType::i32;
};
template <>
struct DataTypeOf<std::int64_t> {
  static constexpr DataType value = DataType::i64;
};
template <>
struct DataTypeOf<std::uint8_t> {
  static constexpr DataType value = DataType::u8;
};
template <>
struct DataTypeOf<bool> {
  static constexpr DataType value = DataType::boolean;
};

}  // namespace ddp

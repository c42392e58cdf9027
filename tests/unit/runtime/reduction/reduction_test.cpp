#include "runtime/reduction/reduction.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "runtime/reduction/kernels.h"
#include "support/catch.h"
#include "support/random_seed.h"

using namespace ddp;
using namespace ddp::internal;

namespace {

template <typename T>
std::vector<T> reduced(ReduceOp op, const std::vector<std::vector<T>>& inputs,
                       const std::vector<double>& factors = {}) {
  std::vector<ReductionSource> sources;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    sources.push_back({inputs[k].data(), factors.empty() ? 1 : factors[k]});
  }
  std::vector<T> result(inputs[0].size());
  void* destination = result.data();
  reduce(DataTypeOf<T>::value, op, sources, {&destination, 1}, result.size());
  return result;
}

template <typename T>
T nan() {
  return static_cast<T>(std::numeric_limits<float>::quiet_NaN());
}

std::vector<std::uint16_t> all_patterns() {
  std::vector<std::uint16_t> result;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) result.push_back(static_cast<std::uint16_t>(bits));
  return result;
}

}  // namespace

TEST_CASE("integer sums wrap around") {
  CHECK(reduced<std::int32_t>(ReduceOp::sum, {{INT32_MAX}, {1}}) == std::vector<std::int32_t>{INT32_MIN});
  CHECK(reduced<std::int16_t>(ReduceOp::product, {{INT16_MAX}, {INT16_MAX}}) == std::vector<std::int16_t>{1});
  CHECK(reduced<std::int8_t>(ReduceOp::sum, {{100}, {100}}) == std::vector<std::int8_t>{-56});
  CHECK(reduced<std::int64_t>(ReduceOp::product, {{INT64_MIN}, {-1}}) == std::vector<std::int64_t>{INT64_MIN});
}

TEST_CASE("sums of bool are logical or, and products are logical and") {
  const std::vector<std::uint8_t> a = {0, 0, 1, 1};
  const std::vector<std::uint8_t> b = {0, 1, 0, 1};
  const auto of = [&](ReduceOp op) {
    std::vector<std::uint8_t> result(4);
    const std::array<ReductionSource, 2> sources = {{{a.data()}, {b.data()}}};
    void* destination = result.data();
    reduce(DataType::boolean, op, sources, {&destination, 1}, 4);
    return result;
  };
  for (const auto op : {ReduceOp::sum, ReduceOp::max, ReduceOp::bit_or}) {
    CHECK(of(op) == std::vector<std::uint8_t>{0, 1, 1, 1});
  }
  for (const auto op : {ReduceOp::product, ReduceOp::min, ReduceOp::bit_and}) {
    CHECK(of(op) == std::vector<std::uint8_t>{0, 0, 0, 1});
  }
  CHECK(of(ReduceOp::bit_xor) == std::vector<std::uint8_t>{0, 1, 1, 0});
}

TEST_CASE("a NaN is kept by minimum and maximum") {
  for (const auto op : {ReduceOp::min, ReduceOp::max}) {
    CHECK(std::isnan(reduced<float>(op, {{nan<float>()}, {1}, {2}})[0]));
    CHECK(std::isnan(reduced<float>(op, {{1}, {nan<float>()}, {2}})[0]));
    CHECK(std::isnan(reduced<double>(op, {{1}, {2}, {nan<double>()}})[0]));
    CHECK(std::isnan(static_cast<float>(reduced<Float16>(op, {{Float16(1)}, {nan<Float16>()}})[0])));
  }
}

TEST_CASE("each source is weighted by its factor") {
  CHECK(reduced<float>(ReduceOp::premultiplied_sum, {{1, 2}, {10, 20}}, {0.5, 2}) == std::vector<float>{20.5, 41});
  CHECK(reduced<double>(ReduceOp::average, {{3}, {5}}, {0.5, 0.5}) == std::vector<double>{4});
  CHECK(factor_of(ReduceOp::average, 4) == 0.25);
  CHECK(factor_of(ReduceOp::premultiplied(3), 4) == 3);
  CHECK(factor_of(ReduceOp::max, 4) == 1);
}

TEST_CASE("half precision is summed in single precision and rounded once") {
  // 2048 + 1 + 1 is 2048 when each sum is rounded to f16, and 256 + 0.5 + 0.5 + 1 is 256 in bf16.
  CHECK(reduced<Float16>(ReduceOp::sum, {{Float16(2048)}, {Float16(1)}, {Float16(1)}})[0] == Float16(2050));
  CHECK(reduced<BFloat16>(ReduceOp::sum, {{BFloat16(256)}, {BFloat16(0.5)}, {BFloat16(0.5)}, {BFloat16(1)}})[0] ==
        BFloat16(258));
}

TEST_CASE("a destination may be a source, and there may be several destinations") {
  std::vector<float> a(3000, 1);
  std::vector<float> b(3000, 2);
  std::vector<float> c(3000, 4);
  const std::array<ReductionSource, 3> sources = {{{a.data()}, {b.data()}, {c.data()}}};
  const std::array<void*, 3> destinations = {b.data(), a.data(), c.data()};
  reduce(DataType::f32, ReduceOp::sum, sources, destinations, a.size());
  CHECK(a == std::vector<float>(3000, 7));
  CHECK(b == a);
  CHECK(c == a);
}

TEST_CASE("all processors give bit-identical results") {
  const ReductionKernels& best = reduction_kernels();
  if (&best == &kPortableKernels) return;  // there is nothing to compare with
  std::mt19937 generator(test::random_seed());
  constexpr std::size_t kCount = 2500;  // two and a half blocks
  for (const DataType type : kDataTypes) {
    std::vector<std::vector<unsigned char>> inputs(3, std::vector<unsigned char>(kCount * size_of(type)));
    for (auto& input : inputs) {
      for (auto& byte : input)
        byte = static_cast<unsigned char>(generator() & (type == DataType::boolean ? 1U : 0xffU));
    }
    const std::array<ReductionSource, 3> sources = {
        {{inputs[0].data(), 0.3}, {inputs[1].data(), 2}, {inputs[2].data()}}};
    for (std::size_t step = 0; step < ReductionKernels::kSteps; ++step) {
      const auto kind = static_cast<ReductionKernels::Step>(step);
      REQUIRE((best.at(type, kind) == nullptr) == (kPortableKernels.at(type, kind) == nullptr));
      if (best.at(type, kind) == nullptr) continue;
      std::vector<unsigned char> ours(kCount * size_of(type));
      std::vector<unsigned char> portable(ours.size());
      void* destination = ours.data();
      best.at(type, kind)(sources, {&destination, 1}, kCount);
      destination = portable.data();
      kPortableKernels.at(type, kind)(sources, {&destination, 1}, kCount);
      // The payload of a NaN depends on the compiler's order of the operands.
      const auto is_nan = [&](std::size_t i, const std::vector<unsigned char>& bytes) {
        float single = 0;
        double twice = 0;
        if (type == DataType::f64) return std::memcpy(&twice, &bytes[i * 8], 8), std::isnan(twice);
        if (type == DataType::f32) return std::memcpy(&single, &bytes[i * 4], 4), std::isnan(single);
        std::uint16_t bits = 0;
        if (type == DataType::f16) return std::memcpy(&bits, &bytes[i * 2], 2), (bits & 0x7fffU) > 0x7c00U;
        if (type == DataType::bf16) return std::memcpy(&bits, &bytes[i * 2], 2), (bits & 0x7fffU) > 0x7f80U;
        return false;
      };
      std::size_t different = 0;
      for (std::size_t i = 0; i < kCount; ++i) {
        const std::size_t size = size_of(type);
        if (is_nan(i, ours) && is_nan(i, portable)) continue;
        different += std::memcmp(&ours[i * size], &portable[i * size], size) != 0 ? 1 : 0;
      }
      INFO(to_string(type) << " step " << step);
      CHECK(different == 0);
    }
  }
}

TEST_CASE("half precision is unchanged after conversion to single precision and back") {
  for (const std::uint16_t bits : all_patterns()) {
    Float16 half;
    half.bits = bits;
    const float value = static_cast<float>(half);
    if (std::isnan(value)) continue;
    REQUIRE(Float16(value).bits == bits);
    BFloat16 brain;
    brain.bits = bits;
    const float brain_value = static_cast<float>(brain);
    if (!std::isnan(brain_value)) REQUIRE(BFloat16(brain_value).bits == bits);
  }
}

TEST_CASE("the kernels convert half precision like the public types") {
  const auto patterns = all_patterns();
  std::vector<Float16> halves(patterns.size());
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i].bits = patterns[i];
  const auto same = reduced<Float16>(ReduceOp::sum, {halves, std::vector<Float16>(halves.size())});
  std::size_t different = 0;
  for (std::size_t i = 0; i < halves.size(); ++i) {
    const float value = static_cast<float>(halves[i]);
    if (!std::isnan(value) && static_cast<float>(same[i]) != value) ++different;
  }
  CHECK(different == 0);
}

TEST_CASE("rounding to half precision goes to the nearest even number") {
  CHECK(Float16(65519.0F).bits == 0x7bff);
  CHECK(Float16(65520.0F).bits == 0x7c00);
  CHECK(Float16(2049.0F) == Float16(2048.0F));
  CHECK(Float16(2051.0F) == Float16(2052.0F));
  CHECK(Float16(0x1.0p-25F).bits == 0);
  CHECK(Float16(0x1.8p-25F).bits == 1);
  CHECK(Float16(-0.0F).bits == 0x8000);
  CHECK(BFloat16(257.0F) == BFloat16(256.0F));
  CHECK(BFloat16(259.0F) == BFloat16(260.0F));
}

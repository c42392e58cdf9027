#include "runtime/backend/gloo/reduction.h"

#include <catch2/catch.hpp>

#include <limits>

using namespace ddp;

namespace {

template <typename T>
std::vector<T> reduced(ReduceOp op, std::vector<T> a, const std::vector<T>& b) {
  reduce_function(DataTypeOf<T>::value, op)(a.data(), a.data(), b.data(), a.size());
  return a;
}

}  // namespace

TEMPLATE_TEST_CASE("every reduction works on every type", "", float, double, std::int32_t, std::int64_t, std::uint8_t) {
  using Values = std::vector<TestType>;
  CHECK(reduced<TestType>(ReduceOp::sum, {1, 2, 3}, {10, 20, 30}) == Values{11, 22, 33});
  CHECK(reduced<TestType>(ReduceOp::average, {1, 2, 3}, {10, 20, 30}) == Values{11, 22, 33});
  CHECK(reduced<TestType>(ReduceOp::product, {1, 2, 3}, {10, 20, 30}) == Values{10, 40, 90});
  CHECK(reduced<TestType>(ReduceOp::min, {1, 20, 3}, {10, 2, 3}) == Values{1, 2, 3});
  CHECK(reduced<TestType>(ReduceOp::max, {1, 20, 3}, {10, 2, 3}) == Values{10, 20, 3});
  CHECK(reduced<TestType>(ReduceOp::sum, {}, {}).empty());
}

TEMPLATE_TEST_CASE("integers wrap around", "", std::int32_t, std::int64_t, std::uint8_t) {
  using Limits = std::numeric_limits<TestType>;
  CHECK(reduced<TestType>(ReduceOp::sum, {Limits::max()}, {1}) == std::vector<TestType>{Limits::min()});
  CHECK(reduced<TestType>(ReduceOp::product, {Limits::max()}, {2}) == std::vector<TestType>{static_cast<TestType>(-2)});
}

TEST_CASE("the result may go to the second operand") {
  const std::vector<float> a = {1, 2};
  std::vector<float> b = {10, 20};
  reduce_function(DataType::f32, ReduceOp::sum)(b.data(), a.data(), b.data(), 2);
  CHECK(b == std::vector<float>{11, 22});
}

TEST_CASE("a buffer is scaled in place") {
  std::vector<float> floats = {1, -2};
  std::vector<double> doubles = {3};
  scale(floats, 0.5);
  scale(doubles, 0.25);
  CHECK(floats == std::vector<float>{0.5F, -1});
  CHECK(doubles == std::vector<double>{0.75});
}

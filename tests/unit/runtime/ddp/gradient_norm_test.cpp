#include "runtime/ddp/gradient_norm.h"

#include <ddp/error.h>

#include <limits>
#include <vector>

#include "support/catch.h"
#include "support/expect_error.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

namespace {

template <typename T>
double squares_of(const std::vector<T>& values) {
  return sum_of_squares(values);
}

}  // namespace

TEST_CASE("squares of every floating-point type add up, of any number of elements") {
  for (const std::size_t count : {0, 1, 7, 8, 9, 100}) {
    const auto squares = static_cast<double>(count) * 2.25;
    CHECK(squares_of(std::vector<float>(count, 1.5F)) == squares);
    CHECK(squares_of(std::vector<double>(count, -1.5)) == squares);
    CHECK(squares_of(std::vector<Float16>(count, Float16(1.5F))) == squares);
    CHECK(squares_of(std::vector<BFloat16>(count, BFloat16(-1.5F))) == squares);
  }
}

TEST_CASE("squares that no float holds add up") {
  CHECK(squares_of(std::vector<float>(3, 1e30F)) == Approx(3e60));
  CHECK(squares_of(std::vector<float>{std::numeric_limits<float>::infinity()}) ==
        std::numeric_limits<double>::infinity());
}

TEST_CASE("integers have no norm") {
  expect_error(ErrorKind::invalid_argument, {"i32"}, [] { squares_of(std::vector<std::int32_t>(3)); });
}

#include "runtime/reduction/ordered.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "support/catch.h"
#include "support/typed_values.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

TEST_CASE("ordered integers keep the order of the values, with NaN at the chosen end, and convert back") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::vector<double> ascending = {-kInfinity, -60000, -1, -0.0001, -0.0, 0.0, 0.0001, 0.5, 1, 60000, kInfinity};
  for (const DataType type : {DataType::f16, DataType::bf16, DataType::f32, DataType::f64}) {
    CAPTURE(to_string(type));
    with_type(type, [&](auto kind) {
      using T = decltype(kind);
      using Number = std::conditional_t<std::is_same_v<T, double>, double, float>;
      std::vector<T> values;
      for (const double value : ascending) values.push_back(T(static_cast<Number>(value)));
      const auto not_a_number = static_cast<Number>(std::nan(""));
      values.push_back(T(not_a_number));
      values.push_back(T(-not_a_number));
      for (const bool nan_is_largest : {false, true}) {
        std::vector<std::int64_t> memory(values.size());
        const Buffer integers{memory.data(), values.size(), ordered_type(type)};
        to_ordered({values.data(), values.size(), type}, nan_is_largest, integers);
        const auto at = [&](std::size_t i) {
          return type == DataType::f64 ? memory[i] : static_cast<std::int32_t*>(integers.data)[i];
        };
        for (std::size_t i = 1; i < ascending.size(); ++i) CHECK(at(i - 1) < at(i));
        for (const std::size_t nan : {ascending.size(), ascending.size() + 1}) {
          CHECK((nan_is_largest ? at(nan) > at(ascending.size() - 1) : at(nan) < at(0)));
        }
        std::vector<T> back(values.size());
        from_ordered(integers, {back.data(), back.size(), type});
        CHECK(std::equal(back.begin(), back.end() - 2, values.begin(),
                         [](const T& a, const T& b) { return std::memcmp(&a, &b, sizeof a) == 0; }));
        CHECK(std::isnan(static_cast<Number>(back[back.size() - 2])));
        CHECK(std::isnan(static_cast<Number>(back.back())));
      }
    });
  }
}

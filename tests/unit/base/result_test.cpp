#include "base/result.h"

#include <memory>

#include "support/catch.h"

using ddp::base::Failure;
using ddp::base::Result;

namespace {
Result<std::unique_ptr<int>> half_of(int number) {
  if (number % 2 != 0) return Failure{std::to_string(number) + " is odd"};
  return std::make_unique<int>(number / 2);
}
}  // namespace

TEST_CASE("a Result holds either a value or a failure") {
  const auto failed = half_of(3);
  CHECK_FALSE(failed.ok());
  CHECK_FALSE(failed);
  CHECK(failed.error().message == "3 is odd");

  auto succeeded = half_of(4);
  REQUIRE(succeeded);
  CHECK(*succeeded.value() == 2);
}

TEST_CASE("the value of a Result can be moved out") {
  const std::unique_ptr<int> value = half_of(8).value();
  CHECK(*value == 4);
}

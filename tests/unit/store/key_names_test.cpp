#include "store/key_names.h"

#include <vector>

#include "support/catch.h"
#include "support/expect_error.h"

using ddp::store::name_keys;
using ddp::store::require_pairs;
using Keys = std::vector<std::string>;

TEST_CASE("a few keys are named, and many are counted") {
  CHECK(name_keys(Keys{"a"}) == "key 'a'");
  CHECK(name_keys(Keys{"a", "b"}) == "2 keys 'a', 'b'");
  CHECK(name_keys(Keys{"a", "b", "c", "d"}) == "4 keys 'a', 'b', 'c', 'd'");
  CHECK(name_keys(Keys{"a", "b", "c", "d", "e"}) == "5 keys 'a', 'b', 'c', 'd', …");
}

TEST_CASE("the number of values must equal the number of keys") {
  require_pairs({}, {});
  require_pairs(Keys{"a"}, Keys{"1"});
  ddp::test::expect_error(ddp::ErrorKind::invalid_argument, {"2 keys but 1 value"}, [] {
    require_pairs(Keys{"a", "b"}, Keys{"1"});
  });
}

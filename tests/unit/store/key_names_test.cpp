#include "store/key_names.h"

#include <catch2/catch.hpp>

#include <vector>

using ddp::store::name_keys;
using Keys = std::vector<std::string>;

TEST_CASE("a few keys are named and many are counted") {
  CHECK(name_keys(Keys{"a"}) == "key 'a'");
  CHECK(name_keys(Keys{"a", "b"}) == "2 keys 'a', 'b'");
  CHECK(name_keys(Keys{"a", "b", "c", "d"}) == "4 keys 'a', 'b', 'c', 'd'");
  CHECK(name_keys(Keys{"a", "b", "c", "d", "e"}) == "5 keys 'a', 'b', 'c', 'd', …");
}

#include "base/hash.h"

#include "support/catch.h"

using namespace ddp::base;

namespace {
std::uint64_t hash_of(std::string_view text) {
  Fnv1a64 hash;
  hash.update(text);
  return hash.value();
}
}  // namespace

// The vectors come from the draft.
TEST_CASE("the FNV-1a hash gives the published values") {
  CHECK(hash_of("") == 0xcbf29ce484222325ULL);
  CHECK(hash_of("a") == 0xaf63dc4c8601ec8cULL);
  CHECK(hash_of("foobar") == 0x85944171f73967e8ULL);
}

TEST_CASE("a hash of data does not depend on how the data are divided") {
  Fnv1a64 hash;
  hash.update("foo");
  hash.update("");
  hash.update("bar");
  CHECK(hash.value() == hash_of("foobar"));
}

TEST_CASE("a hash is printed with all of its 16 digits") {
  CHECK(hex64(0) == "0000000000000000");
  CHECK(hex64(0xabc) == "0000000000000abc");
  CHECK(hex64(~std::uint64_t{0}) == "ffffffffffffffff");
}

#include <ddp/store.h>

#include "support/catch.h"
#include "support/deadline.h"
#include "support/expect_error.h"

using namespace ddp::test;
using Keys = std::vector<std::string>;

TEST_CASE("a prefix and a slash precede each key") {
  const auto inner = ddp::make_memory_store(kPatience);
  const auto store = ddp::make_prefix_store("job", inner);
  store->set("a", "1");
  store->add("n", 3);
  store->compare_set("c", "", "2");
  CHECK(inner->multi_get(Keys{"job/a", "job/n", "job/c"}) == Keys{"1", "3", "2"});
  CHECK_FALSE(inner->check(Keys{"a"}));
  CHECK(store->delete_key("a"));
  CHECK_FALSE(inner->check(Keys{"job/a"}));
}

TEST_CASE("nested prefixes are applied from the outside in") {
  const auto inner = ddp::make_memory_store(kPatience);
  ddp::make_prefix_store("b", ddp::make_prefix_store("a", inner))->set("k", "v");
  CHECK(inner->get("a/b/k") == "v");
}

TEST_CASE("stores with different prefixes do not see each other") {
  const auto inner = ddp::make_memory_store(kPatience);
  const auto first = ddp::make_prefix_store("1", inner);
  const auto second = ddp::make_prefix_store("2", inner);
  first->set("k", "first");
  CHECK_FALSE(second->check(Keys{"k"}));
  second->set("k", "second");
  CHECK(first->get("k") == "first");
}

TEST_CASE("a timeout error names the whole key") {
  const auto store = ddp::make_prefix_store("job", ddp::make_memory_store(std::chrono::milliseconds(5)));
  CHECK(store->timeout() == std::chrono::milliseconds(5));
  expect_error(ddp::ErrorKind::timeout, {"'job/k'"}, [&] { store->get("k"); });
}

// What every kind of store promises, asked of each kind.
#include <ddp/store.h>

#include <catch2/catch.hpp>

#include <optional>
#include <thread>

#include "support/deadline.h"
#include "support/expect_error.h"
#include "support/store_server_fixture.h"

using namespace ddp::test;
using namespace std::chrono_literals;
using Keys = std::vector<std::string>;

namespace {

class AnyStore {
 public:
  explicit AnyStore(const std::string& kind) {
    if (kind == "tcp") server_.emplace();
    store_ = kind == "tcp" ? ddp::connect_tcp_store("127.0.0.1", server_->port(), kPatience)
                           : ddp::make_memory_store(kPatience);
    if (kind == "prefix") store_ = ddp::make_prefix_store("some", store_);
  }
  ddp::Store* operator->() { return store_.get(); }
  const std::shared_ptr<ddp::Store>& pointer() const { return store_; }

 private:
  std::optional<RunningStore> server_;
  std::shared_ptr<ddp::Store> store_;
};

}  // namespace

TEST_CASE("every store keeps any bytes") {
  AnyStore store(GENERATE(as<std::string>(), "memory", "tcp", "prefix"));
  const std::string bytes("\0\xFF\n", 3);
  store->set(bytes, bytes);
  CHECK(store->get(bytes) == bytes);
  store->set("empty", "");
  CHECK(store->get("empty").empty());
  store->set("empty", "filled");
  CHECK(store->get("empty") == "filled");
}

TEST_CASE("every store returns several values in order") {
  AnyStore store(GENERATE(as<std::string>(), "memory", "tcp", "prefix"));
  store->set("a", "1");
  store->set("b", "2");
  CHECK(store->multi_get(Keys{"b", "a", "b"}) == Keys{"2", "1", "2"});
  CHECK(store->multi_get({}).empty());
}

TEST_CASE("every store counts") {
  AnyStore store(GENERATE(as<std::string>(), "memory", "tcp", "prefix"));
  CHECK(store->add("n", 0) == 0);
  CHECK(store->add("n", 5) == 5);
  CHECK(store->add("n", -7) == -2);
  CHECK(store->get("n") == "-2");
}

TEST_CASE("every store compares and sets as PyTorch does") {
  AnyStore store(GENERATE(as<std::string>(), "memory", "tcp", "prefix"));
  CHECK(store->compare_set("k", "old", "new") == "old");
  CHECK_FALSE(store->check(Keys{"k"}));
  CHECK(store->compare_set("k", "", "v1") == "v1");
  CHECK(store->compare_set("k", "x", "v2") == "v1");
  CHECK(store->compare_set("k", "v1", "v2") == "v2");
  CHECK(store->get("k") == "v2");
}

TEST_CASE("every store checks and deletes") {
  AnyStore store(GENERATE(as<std::string>(), "memory", "tcp", "prefix"));
  CHECK(store->check({}));
  CHECK_FALSE(store->delete_key("k"));
  store->set("k", "");
  CHECK(store->check(Keys{"k"}));
  CHECK_FALSE(store->check(Keys{"k", "j"}));
  CHECK(store->delete_key("k"));
  CHECK_FALSE(store->check(Keys{"k"}));
}

TEST_CASE("every store waits no longer than it was told") {
  AnyStore store(GENERATE(as<std::string>(), "memory", "tcp", "prefix"));
  store->wait({}, 0ms);
  store->set("a", "");
  store->wait(Keys{"a"}, kPatience);
  expect_error(ddp::ErrorKind::timeout, {"b"}, [&] { store->wait(Keys{"a", "b"}, 5ms); });
  CHECK(store->timeout() == kPatience);
}

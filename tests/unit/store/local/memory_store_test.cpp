#include <ddp/store.h>

#include <thread>

#include "support/catch.h"
#include "support/deadline.h"
#include "support/expect_error.h"

using namespace ddp::test;
using namespace std::chrono_literals;
using ddp::ErrorKind;
using ddp::make_memory_store;
using Keys = std::vector<std::string>;

TEST_CASE("a wait for a key that is never set names it") {
  const auto store = make_memory_store(10ms);
  CHECK(store->timeout() == 10ms);
  expect_error(ErrorKind::timeout, {"'k'", "10 ms"}, [&] { store->get("k"); });
  store->set("a", "");
  expect_error(ErrorKind::timeout, {"'b'"}, [&] { store->wait(Keys{"a", "b"}, 5ms); });
}

TEST_CASE("adding to a value that is not a number or beyond 64 bits is rejected and changes nothing") {
  const auto store = make_memory_store(kPatience);
  store->set("n", "x");
  expect_error(ErrorKind::invalid_argument, {"'n'", "not a number"}, [&] { store->add("n", 1); });
  CHECK(store->get("n") == "x");
  store->add("m", INT64_MAX);
  expect_error(ErrorKind::invalid_argument, {"'m'", "64 bits"}, [&] { store->add("m", 1); });
  CHECK(store->get("m") == "9223372036854775807");
}

TEST_CASE("waiting threads are woken by the last key") {
  const auto store = make_memory_store(kPatience);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      store->wait(Keys{"a", "b"}, kPatience);
      store->add("woken", 1);
    });
  }
  store->set("a", "");
  store->compare_set("b", "", "x");
  for (std::thread& thread : threads) thread.join();
  CHECK(store->add("woken", 0) == 4);
}

// Tests what every kind of store promises.
#include <ddp/store.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "support/catch.h"
#include "support/deadline.h"
#include "support/expect_error.h"
#include "support/store_server_fixture.h"
#include "support/temporary_directory.h"

using namespace ddp::test;
using namespace std::chrono_literals;
using Keys = std::vector<std::string>;

namespace {

// Implements a program's own store. Store builds all other functions from these.
class SixFunctions : public ddp::Store {
 public:
  void set(const std::string& key, std::string_view value) override { inner_->set(key, value); }
  std::string get(const std::string& key) override { return inner_->get(key); }
  std::int64_t add(const std::string& key, std::int64_t delta) override { return inner_->add(key, delta); }
  std::string compare_set(const std::string& key, std::string_view expected, std::string_view desired) override {
    return inner_->compare_set(key, expected, desired);
  }
  bool check(std::span<const std::string> keys) override { return inner_->check(keys); }
  bool delete_key(const std::string& key) override { return inner_->delete_key(key); }

 private:
  const std::shared_ptr<ddp::Store> inner_ = ddp::make_memory_store(kPatience);
};

class AnyStore {
 public:
  explicit AnyStore(const std::string& kind) {
    if (kind == "tcp") server_.emplace();
    if (kind == "own") store_ = std::make_shared<SixFunctions>();
    if (kind == "file") file_ = directory_.emplace().path() + "/store";
    store_ = user();
    if (kind != "prefix") return;
    store_->set("somebody else's", "");
    store_ = ddp::make_prefix_store("some", store_);
  }
  // Returns a store for another thread: another object, as in another process, if there can be several.
  std::shared_ptr<ddp::Store> user() const {
    if (server_) return ddp::connect_tcp_store("127.0.0.1", server_->port(), kPatience);
    if (!file_.empty()) return ddp::make_file_store(file_, kPatience);
    return store_ ? store_ : ddp::make_memory_store(kPatience);
  }
  std::shared_ptr<ddp::Store> shared() const { return store_; }
  ddp::Store* operator->() { return store_.get(); }

 private:
  std::optional<RunningStore> server_;
  std::optional<TemporaryDirectory> directory_;
  std::string file_;
  std::shared_ptr<ddp::Store> store_;
};

}  // namespace

TEST_CASE("every store keeps any bytes") {
  AnyStore store(GENERATE(as<std::string>(), "memory", "file", "prefix", "tcp", "own"));
  const std::string bytes("\0\xFF\n", 3);
  store->set(bytes, bytes);
  CHECK(store->get(bytes) == bytes);
  store->set("empty", "");
  CHECK(store->get("empty").empty());
  store->set("empty", "filled");
  CHECK(store->get("empty") == "filled");
}

TEST_CASE("every store returns several values in order") {
  AnyStore store(GENERATE(as<std::string>(), "memory", "file", "prefix", "tcp", "own"));
  store->set("a", "1");
  store->set("b", "2");
  CHECK(store->multi_get(Keys{"b", "a", "b"}) == Keys{"2", "1", "2"});
  CHECK(store->multi_get({}).empty());
}

TEST_CASE("add() of every store returns the sum of all numbers that were added to the key") {
  AnyStore store(GENERATE(as<std::string>(), "memory", "file", "prefix", "tcp", "own"));
  CHECK(store->add("n", 0) == 0);
  CHECK(store->add("n", 5) == 5);
  CHECK(store->add("n", -7) == -2);
  CHECK(store->get("n") == "-2");
}

TEST_CASE("every store compares and sets like PyTorch") {
  AnyStore store(GENERATE(as<std::string>(), "memory", "file", "prefix", "tcp", "own"));
  CHECK(store->compare_set("k", "old", "new") == "old");
  CHECK_FALSE(store->check(Keys{"k"}));
  CHECK(store->compare_set("k", "", "v1") == "v1");
  CHECK(store->compare_set("k", "x", "v2") == "v1");
  CHECK(store->compare_set("k", "v1", "v2") == "v2");
  CHECK(store->get("k") == "v2");
}

TEST_CASE("every store checks and deletes keys") {
  AnyStore store(GENERATE(as<std::string>(), "memory", "file", "prefix", "tcp", "own"));
  CHECK(store->check({}));
  CHECK_FALSE(store->delete_key("k"));
  store->set("k", "");
  CHECK(store->check(Keys{"k"}));
  CHECK_FALSE(store->check(Keys{"k", "j"}));
  CHECK(store->delete_key("k"));
  CHECK_FALSE(store->check(Keys{"k"}));
}

TEST_CASE("every store waits no longer than its timeout") {
  AnyStore store(GENERATE(as<std::string>(), "memory", "file", "prefix", "tcp"));
  store->wait({}, 0ms);
  store->set("a", "");
  store->wait(Keys{"a"}, kPatience);
  expect_error(ddp::ErrorKind::timeout, {"b"}, [&] { store->wait(Keys{"a", "b"}, 5ms); });
  CHECK(store->timeout() == kPatience);
}

TEST_CASE("every store appends to values") {
  AnyStore store(GENERATE(as<std::string>(), "memory", "file", "prefix", "tcp"));
  store->append("k", "a");
  store->append("k", "");
  store->append("k", std::string("\0b", 2));
  CHECK(store->get("k") == std::string("a\0b", 3));
}

TEST_CASE("every store sets several values") {
  AnyStore store(GENERATE(as<std::string>(), "memory", "file", "prefix", "tcp", "own"));
  store->multi_set(Keys{"a", "b", "a"}, Keys{"1", "2", "3"});
  store->multi_set({}, {});
  CHECK(store->multi_get(Keys{"a", "b"}) == Keys{"3", "2"});
  expect_error(ddp::ErrorKind::invalid_argument, {"2 keys", "1 value"}, [&] {
    store->multi_set(Keys{"a", "b"}, Keys{"1"});
  });
}

TEST_CASE("every store counts its keys") {
  AnyStore store(GENERATE(as<std::string>(), "memory", "file", "prefix", "tcp"));
  CHECK(store->num_keys() == 0);
  store->multi_set(Keys{"a", "b"}, Keys{"1", "2"});
  CHECK(store->num_keys() == 2);
  store->delete_key("a");
  CHECK(store->num_keys() == 1);
}

TEST_CASE("every store lists its keys") {
  AnyStore store(GENERATE(as<std::string>(), "memory", "file", "prefix", "tcp"));
  CHECK(store->list_keys().empty());
  store->multi_set(Keys{"a", "b/c", "/", ""}, Keys{"1", "2", "3", "4"});
  store->queue_push("q", "1");
  Keys keys = store->list_keys();
  std::sort(keys.begin(), keys.end());
  CHECK(keys == Keys{"", "/", "a", "b/c"});
}

TEST_CASE("every store has queues") {
  AnyStore store(GENERATE(as<std::string>(), "memory", "file", "prefix", "tcp", "own"));
  CHECK(store->queue_len("q") == 0);
  CHECK(store->try_queue_pop("q") == std::nullopt);
  for (const char* value : {"1", "", "3"}) store->queue_push("q", value);
  CHECK(store->queue_len("q") == 3);
  CHECK(store->queue_pop("q", kPatience) == "1");
  CHECK(store->try_queue_pop("q") == "");
  CHECK(store->queue_pop("q", kPatience) == "3");
  CHECK(store->queue_len("q") == 0);
  expect_error(ddp::ErrorKind::timeout, {"q"}, [&] { store->queue_pop("q", 5ms); });
}

TEST_CASE("every store distinguishes a queue from the value of its key") {
  AnyStore store(GENERATE(as<std::string>(), "memory", "file", "prefix", "tcp"));
  store->set("k", "value");
  CHECK(store->try_queue_pop("k") == std::nullopt);
  expect_error(ddp::ErrorKind::timeout, {"k"}, [&] { store->queue_pop("k", 5ms); });
  store->queue_push("k", "queued");
  CHECK(store->get("k") == "value");
  CHECK(store->delete_key("k"));
  CHECK(store->num_keys() == 0);
  store->wait(Keys{"k"}, kPatience);
  CHECK(store->check(Keys{"k"}));
  CHECK_FALSE(store->delete_key("k"));
  CHECK(store->queue_pop("k", kPatience) == "queued");
  CHECK_FALSE(store->check(Keys{"k"}));
}

TEST_CASE("every store gives each queued value to one waiting client") {
  AnyStore store(GENERATE(as<std::string>(), "memory", "file", "prefix", "tcp", "own"));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([user = store.user()] {
      for (int step = 0; step < 10; ++step) user->add("sum", std::stoi(user->queue_pop("q", kPatience)));
    });
  }
  const auto pusher = store.user();
  for (int i = 1; i <= 40; ++i) pusher->queue_push("q", std::to_string(i));
  for (std::thread& thread : threads) thread.join();
  CHECK(store->get("sum") == "820");
  CHECK(store->queue_len("q") == 0);
}

TEST_CASE("every store wakes its waiting clients") {
  AnyStore store(GENERATE(as<std::string>(), "memory", "file", "prefix", "tcp"));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([user = store.user()] {
      user->wait(Keys{"a", "b", "c", "d"}, kPatience);
      user->add("woken", 1);
    });
  }
  const auto writer = store.user();
  writer->set("a", "");
  writer->compare_set("b", "", "x");
  writer->append("c", "x");
  writer->add("d", 1);
  for (std::thread& thread : threads) thread.join();
  CHECK(store->get("woken") == "4");
}

TEST_CASE("every store serves other threads while some wait") {
  AnyStore store(GENERATE(as<std::string>(), "memory", "file", "prefix", "tcp", "own"));
  // Each thread waits for what the previous thread does after its own wait.
  std::vector<std::thread> threads;
  for (int i = 3; i >= 0; --i) {
    threads.emplace_back([i, store = store.shared()] {
      const std::string own = std::to_string(i);
      if (i == 1) {
        store->get(own);
      } else if (i == 2) {
        store->queue_pop(own, kPatience);
      } else {
        store->wait(Keys{own}, kPatience);
      }
      const std::string next = std::to_string(i + 1);
      if (i == 1) {
        store->queue_push(next, "");
      } else {
        store->set(next, "");
      }
      store->barrier("all", 5, kPatience);
    });
    std::this_thread::sleep_for(2ms);  // the thread usually waits by then
  }
  store->set("0", "");
  store->wait(Keys{"4"}, kPatience);
  store->barrier("all", 5, kPatience);
  for (std::thread& thread : threads) thread.join();
  CHECK(store->get("4").empty());
}

TEST_CASE("every store executes the requests of one thread in order while others wait") {
  AnyStore store(GENERATE(as<std::string>(), "memory", "file", "prefix", "tcp", "own"));
  std::vector<std::thread> waiting;
  for (int i = 0; i < 50; ++i) {
    const std::string number = std::to_string(i);
    store->set("value", number);
    waiting.emplace_back([store = store.shared(), number] { store->wait(Keys{"go" + number}, kPatience); });
    store->add("steps", 1);
    CHECK(store->get("value") == number);
    if (i % 5 == 4) {
      for (int j = i - 4; j <= i; ++j) store->set("go" + std::to_string(j), "");
      for (std::thread& thread : waiting) thread.join();
      waiting.clear();
    }
  }
}

TEST_CASE("every store holds clients at a barrier until all have arrived") {
  AnyStore store(GENERATE(as<std::string>(), "memory", "file", "prefix", "tcp", "own"));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([user = store.user()] {
      for (int round = 1; round <= 5; ++round) {
        const std::string key = "round" + std::to_string(round);
        user->add("before " + key, 1);
        user->barrier(key, 4, kPatience);
        if (user->get("before " + key) != "4") user->set("early", key);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_FALSE(store->check(Keys{"early"}));
  CHECK(store->get("round1") == "4");
  store->barrier("round1", 4, 0ms);
}

TEST_CASE("every store ends a barrier that not all clients reach") {
  AnyStore store(GENERATE(as<std::string>(), "memory", "file", "prefix", "tcp", "own"));
  store->barrier("alone", 1, kPatience);
  expect_error(ddp::ErrorKind::timeout, {"barrier", "b"}, [&] { store->barrier("b", 2, 5ms); });
  store->barrier("b", 2, kPatience);
  expect_error(ddp::ErrorKind::invalid_argument, {"b'", "world size"}, [&] { store->barrier("b", 0, 5ms); });
}

TEST_CASE("a user-defined store reports unsupported requests and has a timeout of five minutes") {
  AnyStore store("own");
  CHECK(store->timeout() == 5min);
  expect_error(ddp::ErrorKind::unavailable, {"'k'"}, [&] { store->append("k", "x"); });
  expect_error(ddp::ErrorKind::unavailable, {"list its keys"}, [&] { store->num_keys(); });
  expect_error(ddp::ErrorKind::timeout, {"no rank set 'b', 'c' within 5 ms"}, [&] {
    store->set("a", "");
    store->wait(Keys{"a", "b", "c"}, 5ms);
  });
  expect_error(ddp::ErrorKind::timeout, {"only 1 of 2", "'meet'"}, [&] { store->barrier("meet", 2, 5ms); });
}

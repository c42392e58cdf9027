// foreign_store PORT legacy|stock|libuv: tests ddp::Store with everything that PyTorch's server can do. `legacy` is the
// server of PyTorch 1.13. `stock` is a newer one without libuv, which has no queues, and `libuv` is one with it. Exits
// with 0 if all is correct.
#include <ddp/error.h>
#include <ddp/store.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

namespace {

using namespace std::chrono_literals;
using Keys = std::vector<std::string>;

int faults = 0;

void expect(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "fault: %s\n", what);
  ++faults;
}

template <typename Action>
void expect_error(ddp::ErrorKind kind, const char* what, Action&& action) {
  try {
    action();
    expect(false, what);
  } catch (const ddp::Error& error) {
    std::printf("%s: %s\n", what, error.what());
    expect(error.kind() == kind, what);
  }
}

void values(ddp::Store& store) {
  const std::string bytes("\0\xFF/", 3);
  store.set(bytes, bytes);
  expect(store.get(bytes) == bytes, "any bytes");
  store.set("empty", "");
  expect(store.get("empty").empty(), "an empty value");
  const std::string large(std::size_t{1} << 20, 'x');
  store.set("large", large);
  expect(store.get("large") == large, "a large value");
  expect(store.add("n", 5) == 5 && store.add("n", -7) == -2 && store.get("n") == "-2", "add");
  expect(store.compare_set("c", "", "1") == "1" && store.compare_set("c", "x", "2") == "1" &&
             store.compare_set("c", "1", "2") == "2",
         "compare_set");
  expect(store.check(Keys{"n", "c"}) && !store.check(Keys{"n", "absent"}), "check");
  const std::int64_t keys = store.num_keys();
  expect(store.delete_key("c") && !store.delete_key("c") && store.num_keys() == keys - 1, "delete_key, num_keys");
  store.multi_set(Keys{"m1", "m2"}, Keys{"1", "2"});
  expect(store.multi_get(Keys{"m2", "m1"}) == Keys{"2", "1"}, "multi_set, multi_get");
}

void waits(ddp::Store& store, ddp::Store& other) {
  expect_error(ddp::ErrorKind::timeout, "wait", [&] { store.wait(Keys{"never"}, 20ms); });
  store.set("never", "late");
  expect(store.get("never") == "late" && store.add("n", 0) == -2, "what follows a wait in vain");
  std::thread waker([&] { other.set("wake", "up"); });
  expect(store.get("wake") == "up", "a get that waits");
  waker.join();
}

void queues(ddp::Store& store, ddp::Store& other) {
  store.queue_push("q", "1");
  store.queue_push("q", "");
  expect(store.queue_len("q") == 2 && store.check(Keys{"q"}), "queue_len");
  expect(store.queue_pop("q", 20s) == "1" && store.try_queue_pop("q") == "" && !store.try_queue_pop("q"), "queue_pop");
  std::thread pusher([&] { other.queue_push("q", "woken"); });
  expect(store.queue_pop("q", 20s) == "woken", "a pop that waits");
  pusher.join();
  expect_error(ddp::ErrorKind::timeout, "queue_pop", [&] { store.queue_pop("q", 20ms); });
}

void barriers(ddp::Store& store, ddp::Store& other) {
  std::thread second([&] { other.barrier("b", 2, 20s); });
  store.barrier("b", 2, 20s);
  second.join();
  expect_error(ddp::ErrorKind::timeout, "barrier", [&] { store.barrier("b2", 2, 20ms); });
  expect(store.get("never") == "late", "what follows a barrier in vain");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string_view server = argv[2];
  const auto connect = [&] {
    return ddp::connect_tcp_store("127.0.0.1", static_cast<std::uint16_t>(std::atoi(argv[1])), 20s);
  };
  try {
    const auto store = connect();
    const auto other = connect();
    values(*store);
    waits(*store, *other);
    barriers(*store, *other);
    if (server == "legacy") {
      expect_error(ddp::ErrorKind::unavailable, "append", [&] { store->append("k", "v"); });
      expect_error(ddp::ErrorKind::unavailable, "list_keys", [&] { store->list_keys(); });
      expect_error(ddp::ErrorKind::unavailable, "queue_push", [&] { store->queue_push("k", "v"); });
      return faults == 0 ? 0 : 1;
    }
    store->append("k", "a");
    store->append("k", "b");
    expect(store->get("k") == "ab", "append");
    const Keys keys = store->list_keys();
    expect(std::count(keys.begin(), keys.end(), "m1") == 1, "list_keys");
    if (server == "libuv") queues(*store, *other);
    if (server == "stock") expect_error(ddp::ErrorKind::unavailable, "queue_len", [&] { store->queue_len("q"); });
  } catch (const ddp::Error& error) {
    std::fprintf(stderr, "fault: %s\n", error.what());
    ++faults;
  }
  return faults == 0 ? 0 : 1;
}

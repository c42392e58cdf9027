#include <ddp/error.h>
#include <ddp/store.h>

#include <future>
#include <thread>

#include "support/catch.h"
#include "support/expect_error.h"
#include "support/sockets.h"
#include "support/store_requests.h"
#include "support/store_server_fixture.h"
#include "wire/limits.h"

using namespace ddp::test;
using namespace std::chrono_literals;
using ddp::connect_tcp_store;
using ddp::ErrorKind;
using Keys = std::vector<std::string>;

namespace {

std::shared_ptr<ddp::Store> client_of(const RunningStore& store, std::chrono::milliseconds timeout = kPatience) {
  return connect_tcp_store("127.0.0.1", store.port(), timeout);
}

// VALIDATE, PING with its nonce, and CHECK of the extensions key
constexpr std::size_t kHelloBytes = 5 + 5 + 1 + 8 + 8 + ddp::wire::kStoreExtensionsKey.size();

// Sends the store's answer to a new client. It makes no assertions, because it runs beside the test's own thread.
void answer_handshake(int fd, std::uint8_t extensions = ddp::wire::kStoreNotReady) {
  std::string hello(kHelloBytes, '\0');
  if (!ddp::net::receive_all(fd, hello, soon())) return;
  (void)ddp::net::send_all(fd, hello.substr(6, 4) + byte_reply(extensions), soon()).ok();
}

void ignore_until_closed(int fd) {
  char byte = 0;
  while (ddp::net::receive_all(fd, {&byte, 1}, soon())) {
  }
}

}  // namespace

TEST_CASE("a store at a closed port is unavailable, and the message gives the address and a remedy") {
  const BoundSocket closed;
  expect_error(ErrorKind::unavailable,
               {"127.0.0.1:" + std::to_string(closed.port()), "Connection refused", "MASTER_ADDR"},
               [&] { connect_tcp_store("127.0.0.1", closed.port(), 50ms); });
}

TEST_CASE("a server that is not a store is distinguished from a missing one") {
  BoundSocket listener;
  listener.listen();
  SECTION("it says something else") {
    std::thread web_server([&] {
      const auto visitor = listener.accept();
      const std::string answer = "HTTP/1.1 400 Bad Request\r\n";
      (void)ddp::net::send_all(visitor.get(), answer, soon()).ok();
      ignore_until_closed(visitor.get());
    });
    expect_error(ErrorKind::unavailable, {"does not use the store protocol"},
                 [&] { connect_tcp_store("127.0.0.1", listener.port(), 2s); });
    web_server.join();
  }
  SECTION("it says nothing") {
    expect_error(ErrorKind::unavailable, {"does not use the store protocol"},
                 [&] { connect_tcp_store("127.0.0.1", listener.port(), 50ms); });
  }
}

TEST_CASE("a client retries until the store exists") {
  BoundSocket listener;
  listener.listen();
  std::thread late_server([&] {
    listener.accept().reset();  // the first try fails in both dialects
    listener.accept().reset();
    answer_handshake(listener.accept().get());
  });
  const auto client = connect_tcp_store("127.0.0.1", listener.port(), kPatience);
  late_server.join();
  CHECK(client != nullptr);
}

TEST_CASE("keys are sent with a slash as PyTorch does") {
  const RunningStore store;
  client_of(store)->set("k", "v");
  client_of(store)->wait(Keys{"k"}, kPatience);
  RawPeer raw(store.port());
  raw.says(encode(validate()) + encode(get("/k"))).hears(text_reply("v"));
}

TEST_CASE("a wait that times out names its keys and leaves the connection usable") {
  const RunningStore store;
  const auto client = client_of(store);
  expect_error(ErrorKind::timeout, {"key 'a'", "10 ms", std::to_string(store.port())},
               [&] { client->wait(Keys{"a"}, 10ms); });
  expect_error(ErrorKind::timeout, {"3 keys 'a', 'b', 'c'"}, [&] { client->wait(Keys{"a", "b", "c"}, 10ms); });
  expect_error(ErrorKind::timeout, {"6 keys 'a', 'b', 'c', 'd', …"}, [&] {
    client->wait(Keys{"a", "b", "c", "d", "e", "f"}, 10ms);
  });
  client->set("a", "1");
  CHECK(client->get("a") == "1");
}

TEST_CASE("a get that times out names its key") {
  const RunningStore store;
  const auto client = client_of(store, 2s);
  CHECK(client->timeout() == 2s);
  expect_error(ErrorKind::timeout, {"key 'k'"}, [&] { client->get("k"); });
}

TEST_CASE("a key that is set while its wait is cancelled leaves the stream in order") {
  const RunningStore store;
  const auto waiting = client_of(store);
  const auto other = client_of(store);
  for (int round = 0; round < 50; ++round) {
    const std::string key = "k" + std::to_string(round);
    std::thread setter([&] { other->set(key, "v"); });
    ErrorKind kind = ErrorKind::timeout;
    try {
      waiting->wait(Keys{key}, 1ms);
    } catch (const ddp::Error& error) {
      kind = error.kind();
    }
    setter.join();
    REQUIRE(kind == ErrorKind::timeout);
    REQUIRE(waiting->get(key) == "v");
    REQUIRE(waiting->add("round", 1) == round + 1);
  }
}

TEST_CASE("a server that exits during a wait makes the store permanently unavailable") {
  RunningStore store;
  const auto client = client_of(store);
  auto waiting = std::async(std::launch::async, [&] { client->wait(Keys{"k"}, kPatience); });
  client_of(store)->add("n", 1);
  store.stop();
  expect_error(ErrorKind::unavailable, {"closed the connection"}, [&] { waiting.get(); });
  expect_error(ErrorKind::unavailable, {"was lost before"}, [&] { client->set("k", "v"); });
}

TEST_CASE("a server that stops answering makes the call time out") {
  BoundSocket listener;
  listener.listen();
  const auto silent_server = std::async(std::launch::async, [&] {
    const auto client = listener.accept();
    answer_handshake(client.get());
    ignore_until_closed(client.get());
  });
  {
    const auto client = connect_tcp_store("127.0.0.1", listener.port(), 2s);
    expect_error(ErrorKind::timeout, {"does not answer"}, [&] { client->add("n", 1); });
    expect_error(ErrorKind::unavailable, {"was lost before"}, [&] { client->add("n", 1); });
  }
}

TEST_CASE("requests that are too large are rejected before they are sent") {
  const RunningStore store;
  const auto client = client_of(store);
  expect_error(ErrorKind::invalid_argument, {"8193", "8192"},
               [&] { client->set(std::string(ddp::limits::kStoreKeyBytes, 'k'), ""); });
  expect_error(ErrorKind::invalid_argument, {"value of 'k'", "8388609"},
               [&] { client->set("k", std::string(ddp::limits::kStoreValueBytes + 1, 'v')); });
  expect_error(ErrorKind::invalid_argument, {"131073"},
               [&] { client->check(Keys(ddp::limits::kStoreKeysPerRequest + 1, "k")); });
  const std::string largest(ddp::limits::kStoreValueBytes, 'v');
  client->set("k", largest);
  CHECK((client->get("k") == largest));
}

TEST_CASE("a protocol violation by the server ends the connection") {
  RunningStore store;
  const auto client = client_of(store);
  client->set("n", "x");
  expect_error(ErrorKind::unavailable, {"closed the connection"}, [&] { client->add("n", 1); });
  store.complains_of("not a number");
}

TEST_CASE("eight clients count together without losing a step") {
  const RunningStore store;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const auto client = client_of(store);
      for (int step = 0; step < 50; ++step) client->add("n", 1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(client_of(store)->add("n", 0) == 400);
}

TEST_CASE("one client may be used by several threads") {
  const RunningStore store;
  const auto client = client_of(store);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, key = "k" + std::to_string(i)] {
      for (int step = 0; step < 50; ++step) {
        client->set(key, key);
        if (client->get(key) != key) client->set("mixed up", "");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_FALSE(client->check(Keys{"mixed up"}));
}

TEST_CASE("a client has one connection, and one more per thread that waits at the same time") {
  RunningStore store;
  const auto client = client_of(store);
  expect_error(ErrorKind::timeout, {"never"}, [&] { client->wait(Keys{"never"}, 1ms); });
  client->set("a", "");
  client->get("a");
  CHECK(store.report().client_count == 1);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::thread> waiting;
    const auto waits = [&] {
      std::size_t count = 0;
      for (const auto& each : store.report().clients) count += each.waiting_ms >= 0 ? 1 : 0;
      return count;
    };
    const std::string key = "round " + std::to_string(round);
    for (std::size_t i = 0; i < 2; ++i) {
      waiting.emplace_back([&] { client->wait(Keys{key}, kPatience); });
      CHECK(eventually([&] { return waits() == i + 1; }));
    }
    client->set(key, "");
    for (std::thread& thread : waiting) thread.join();
    CHECK(store.report().client_count == 3);
  }
}

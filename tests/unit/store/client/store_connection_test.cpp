#include "store/client/store_connection.h"

#include "support/catch.h"
#include "support/expect_error.h"
#include "support/scripted_store.h"

using namespace ddp::test;
using namespace std::chrono_literals;
using ddp::store::ConnectionLost;
using ddp::store::StoreConnection;

namespace {

auto connection_to(const ScriptedStore& store, std::optional<int> rank = std::nullopt) {
  return beside([options = store.options(rank)] { return StoreConnection::connect(options, soon()); });
}

}  // namespace

TEST_CASE("a client recognises the server from its greeting") {
  ScriptedStore store;
  auto client = connection_to(store);
  SECTION("PyTorch's") {
    store.greets();
    CHECK_FALSE(client.get()->server().ours);
  }
  SECTION("ours") {
    store.greets_as_ours();
    CHECK(client.get()->server() == ddp::store::ServerFacts{ddp::wire::StoreDialect::current, true, 0});
  }
}

TEST_CASE("a client sends its rank to ddplaunch's server only") {
  ScriptedStore store;
  SECTION("ours") {
    auto client = connection_to(store, 2);
    store.greets_rank(2, 77);
    CHECK(client.get()->server().id == 77);
  }
  SECTION("PyTorch's") {
    auto client = connection_to(store, 2);
    RawPeer peer = store.greets();
    client.get().reset();
    peer.is_disconnected();
  }
}

TEST_CASE("a server that closes the connection on the greeting is tried with the legacy dialect") {
  ScriptedStore store;
  auto client = connection_to(store, 2);
  {
    RawPeer first = store.accepts();
    // That server takes the greeting for a key with a length that it cannot even try to allocate.
    const std::string hello = first.hears_bytes(10);
    CHECK(to_hex(hello.substr(6, 3)) == "FF FF FF");
  }
  RawPeer second = store.accepts();
  second.hears(from_hex("06")).says(number_reply(3));
  CHECK(client.get()->server() == ddp::store::ServerFacts{ddp::wire::StoreDialect::legacy, false, 0});
}

TEST_CASE("a server that closes the connection after the greeting is not taken for an old one") {
  ScriptedStore store;
  auto client = beside([options = store.options(1)] {
    return StoreConnection::connect(options, std::chrono::steady_clock::now() + 500ms);
  });
  store.greets_as_ours();
  expect_error(ddp::ErrorKind::unavailable, {"MASTER_ADDR"}, [&] { client.get(); });
}

TEST_CASE("replies are parsed in whatever pieces they arrive") {
  ScriptedStore store;
  auto future = connection_to(store);
  RawPeer peer = store.greets();
  const auto client = future.get();
  const std::string large(100'000, 'x');
  auto sender = beside([&, bytes = number_reply(-5) + text_reply("ab") + text_reply("") + text_reply(large)] {
    for (std::size_t i = 0; i < bytes.size(); i += i < 30 ? 1 : 10'000) {
      peer.tries_to_say(std::string_view(bytes).substr(i, i < 30 ? 1 : 10'000));
    }
    peer.tries_to_say(number_reply(6));
  });
  CHECK(client->receive<std::int64_t>(soon()) == -5);
  CHECK(client->receive_bytes(soon()) == "ab");
  CHECK(client->receive_bytes(soon()).empty());
  CHECK((client->receive_bytes(soon()) == large));
  CHECK(client->receive<std::int64_t>(soon()) == 6);
  sender.get();
  peer.says(number_reply(INT64_MAX));
  CHECK_THROWS_AS(client->receive_bytes(soon()), ConnectionLost);
  CHECK_THROWS_AS(client->receive<std::uint8_t>(std::chrono::steady_clock::now() + 1ms), ConnectionLost);
}

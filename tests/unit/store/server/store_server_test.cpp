#include "store/server/store_server.h"

#include <random>

#include "support/catch.h"
#include "support/random_seed.h"
#include "support/sockets.h"
#include "support/store_requests.h"
#include "support/store_server_fixture.h"
#include "wire/limits.h"

using namespace ddp::test;
using ddp::store::StoreServer;
using ddp::store::StoreServerOptions;
using ddp::wire::StoreDialect;

namespace {

const std::string kStop = byte_reply(0);
const std::string kCanceled = byte_reply(1);

std::string echo_of(std::uint32_t nonce) {
  std::string bytes;
  ddp::wire::put_u32(bytes, nonce);
  return bytes;
}

RawPeer current_client(std::uint16_t port) {
  RawPeer client(port);
  client.says(encode(validate()) + encode(ping(7))).hears(echo_of(7));
  return client;
}

// Requires that the server still serves others.
void expect_service(std::uint16_t port) {
  current_client(port).says(encode(add("service", 0))).hears(number_reply(0));
}

}  // namespace

TEST_CASE("a client that sends garbage is closed and named, and others are served") {
  RunningStore store;
  RawPeer browser(store.port());
  browser.says("GET / HTTP/1.1\r\n\r\n").is_disconnected();
  store.complains_of("127.0.0.1:");
  store.complains_of("unknown request 71");
  expect_service(store.port());
}

TEST_CASE("a huge length prefix costs the server no memory") {
  RunningStore store;
  RawPeer bomber = current_client(store.port());
  bomber.says(from_hex("01 00 00 00 00 00 00 00 80")).is_disconnected();
  store.complains_of("a key of 9223372036854775808 bytes");
  expect_service(store.port());
}

TEST_CASE("random bytes never crash the server") {
  const unsigned seed = random_seed();
  INFO("DDP_TEST_SEED=" << seed);
  std::mt19937 generator(seed);
  RunningStore store;
  for (int round = 0; round < 100; ++round) {
    RawPeer noisy(store.port());
    if (round % 2 == 0) noisy.tries_to_say(encode(validate()));
    std::string bytes(1 + generator() % 200, '\0');
    for (char& byte : bytes) byte = static_cast<char>(generator() % 2 == 0 ? generator() : generator() % 14);
    noisy.tries_to_say(bytes);
  }
  expect_service(store.port());
}

TEST_CASE("a client that vanishes during a request leaves nothing behind") {
  RunningStore store;
  RawPeer ghost = current_client(store.port());
  const std::string request = encode(set("/ghost", "boo"));
  ghost.says(request.substr(0, request.size() - 1));
  ghost.vanishes();
  RawPeer observer = current_client(store.port());
  observer.says(encode(check({"/ghost"}))).hears(byte_reply(1));
  CHECK(store.complaint_count() == 0);
}

TEST_CASE("a client that vanishes while waiting does not disturb others that wait with it") {
  RunningStore store;
  RawPeer ghost = current_client(store.port());
  RawPeer patient = current_client(store.port());
  ghost.says(encode(wait({"/k"})));
  patient.says(encode(wait({"/k"})));
  ghost.vanishes();
  current_client(store.port()).says(encode(set("/k", "")));
  patient.hears(kStop);
}

TEST_CASE("a client that does not read its replies is paused and finally dropped") {
  StoreServerOptions options;
  options.unread_time = std::chrono::milliseconds(300);
  RunningStore store(options);
  RawPeer stubborn = current_client(store.port());
  const std::size_t size = std::size_t{1} << 20;
  stubborn.says(encode(set("/k", std::string(size, 'v'))));
  std::string much;
  for (int i = 0; i < 100; ++i) much += encode(get("/k"));
  stubborn.says(much);
  expect_service(store.port());
  // Up to a megabyte is unsent when the next reply is added, and up to half of the buffer is sent. So the buffer has at
  // most three replies, and it grows by doubling.
  for (const auto& client : store.report().clients) CHECK(client.held_bytes < 5 * static_cast<std::int64_t>(size));
  store.complains_of("does not read");
  expect_service(store.port());
}

TEST_CASE("memory held for clients is limited, and the client with the most is closed") {
  StoreServerOptions options;
  options.limits.buffer_bytes = std::size_t{4} << 20;
  RunningStore store(options);
  RawPeer modest = current_client(store.port());
  modest.says(from_hex("01") + number_reply(1) + "k" + number_reply(1 << 20) + std::string(1 << 19, 'v'));
  RawPeer greedy = current_client(store.port());
  greedy.tries_to_say(from_hex("01") + number_reply(1) + "k" + number_reply(8 << 20) + std::string(5 << 20, 'v'));
  store.complains_of("buffer-bytes 4194304");
  greedy.is_disconnected();
  expect_service(store.port());
  modest.says(std::string(1 << 19, 'v') + encode(ping(3))).hears(echo_of(3));
  modest.says(encode(get("k"))).hears(text_reply(std::string(1 << 20, 'v')));
}

TEST_CASE("connections beyond the limit are refused, and existing ones are served") {
  StoreServerOptions options;
  options.limits.connections = 2;
  RunningStore store(options);
  const RawPeer silent(store.port());
  RawPeer client = current_client(store.port());
  RawPeer third(store.port());
  third.is_disconnected();
  store.complains_of("connections 2");
  client.says(encode(ping(1))).hears(echo_of(1));
}

TEST_CASE("a client that pipelines more than it reads gets every reply") {
  RunningStore store;
  RawPeer client = current_client(store.port());
  const std::string value(1 << 16, 'v');
  std::string much = encode(set("/k", value));
  for (int i = 0; i < 50; ++i) much += encode(get("/k"));
  client.says(much);
  for (int i = 0; i < 50; ++i) client.hears(text_reply(value));
}

TEST_CASE("the report lists keys, clients and their waits") {
  RunningStore store;
  RawPeer waiting = current_client(store.port());
  CHECK(waiting.says(encode(hello(1, 2, "node0:77"))).hears_bytes(8) != number_reply(0));
  waiting.says(encode(set("/a", "123")) + encode(queue_push("/q", "4567")) + encode(wait({"/b", "/c"})));
  RawPeer other = current_client(store.port());
  other.says(encode(inspect()));
  const auto report = ddp::wire::decode_store_report(other.hears_text());
  REQUIRE(report);
  CHECK(report->key_count == 2);
  CHECK(report->keys == std::vector<ddp::wire::StoreReport::Key>{{"/a", 3, -1}, {"/q", 4, 1}});
  REQUIRE(report->clients.size() == 2);
  CHECK(report->client_count == 2);
  const auto& first = report->clients[0];
  CHECK(first.rank == 1);
  CHECK(first.name == "node0:77");
  CHECK(first.waiting_ms >= 0);
  CHECK(first.awaited_keys == 2);
  CHECK(first.awaited == std::vector<std::string>{"/b", "/c"});
  CHECK_THAT(first.peer, Catch::StartsWith("127.0.0.1:"));
  CHECK(report->clients[1].rank == -1);
  CHECK(report->clients[1].waiting_ms == -1);
}

TEST_CASE("a large reply reaches a client that reads slowly") {
  RunningStore store;
  RawPeer client = current_client(store.port());
  const std::string value(ddp::limits::kStoreValueBytes, 'v');
  client.says(encode(set("/k", value)) + encode(get("/k")) + encode(get("/k")) + encode(ping(9)));
  expect_service(store.port());
  for (int i = 0; i < 2; ++i) {
    client.hears(number_reply(static_cast<std::int64_t>(value.size())));
    std::string got(value.size(), '\0');
    REQUIRE(ddp::net::receive_all(client.fd(), got, soon()));
    CHECK((got == value));
  }
  client.hears(echo_of(9));
}

TEST_CASE("requests are served in order however they are divided") {
  RunningStore store;
  RawPeer client(store.port());
  const std::string stream = encode(validate()) + encode(set("/k", "v")) + encode(get("/k")) + encode(add("/n", 5)) +
                             encode(delete_key("/k")) + encode(key_count());
  for (const char byte : stream) client.says({&byte, 1});
  client.hears(text_reply("v") + number_reply(5) + number_reply(1) + number_reply(1));
}

TEST_CASE("both dialects see the same keys") {
  RunningStore store;
  RawPeer old_client(store.port());
  const RawPeer old_callback_channel(store.port());  // 1.13 opens a second connection and sends nothing on it
  old_client.says(encode(set("/k", "v"), StoreDialect::legacy) + encode(add("init/", 1), StoreDialect::legacy));
  old_client.hears(number_reply(1));
  RawPeer new_client = current_client(store.port());
  new_client.says(encode(get("/k")) + encode(add("init/", 1))).hears(text_reply("v") + number_reply(2));
  old_client.says(encode(delete_key("/k"), StoreDialect::legacy)).hears(number_reply(1));
}

TEST_CASE("a wait that is answered while it is cancelled gets both answers") {
  RunningStore store;
  RawPeer waiting = current_client(store.port());
  RawPeer other = current_client(store.port());
  waiting.says(encode(wait({"/k"})));
  other.says(encode(set("/k", "")) + encode(ping(1))).hears(echo_of(1));
  waiting.says(encode(cancel_wait())).hears(kStop + kCanceled);
  waiting.says(encode(wait({"/never"})) + encode(cancel_wait())).hears(kCanceled);
  waiting.says(encode(ping(2))).hears(echo_of(2));
}

TEST_CASE("a legacy client that gives up waiting gets no stray byte") {
  RunningStore store;
  RawPeer old_client(store.port());
  old_client.says(encode(wait({"/k"}), StoreDialect::legacy) + encode(add("/n", 1), StoreDialect::legacy));
  old_client.hears(number_reply(1));
  RawPeer other = current_client(store.port());
  other.says(encode(set("/k", "")) + encode(ping(1))).hears(echo_of(1));
  old_client.says(encode(add("/n", 1), StoreDialect::legacy)).hears(number_reply(2));
}

TEST_CASE("two hundred clients that wait for one key are all answered") {
  RunningStore store;
  std::vector<RawPeer> clients;
  for (std::int64_t i = 1; i <= 200; ++i) {
    clients.push_back(current_client(store.port()));
    clients.back().says(encode(add("/arrived", 1))).hears(number_reply(i));
    clients.back().says(encode(wait({"/go"})));
  }
  current_client(store.port()).says(encode(set("/go", "")));
  for (RawPeer& client : clients) client.hears(kStop);
}

TEST_CASE("clients are disconnected when the server ends") {
  RunningStore store;
  RawPeer client = current_client(store.port());
  client.says(encode(wait({"/k"})));
  store.stop();
  client.is_disconnected();
}

TEST_CASE("a port is held until the server ends") {
  auto server = StoreServer::listen("127.0.0.1", 0, {});
  REQUIRE(server);
  const std::uint16_t port = server.value()->port();
  CHECK(port != 0);
  const auto second = StoreServer::listen("127.0.0.1", port, {});
  REQUIRE_FALSE(second);
  CHECK_THAT(second.error().message,
             Catch::Contains("127.0.0.1:" + std::to_string(port)) && Catch::Contains("already in use"));
  server.value().reset();
  CHECK(StoreServer::listen("127.0.0.1", port, {}));
}

TEST_CASE("an address of another node is rejected") {
  const auto nonsense = StoreServer::listen("node0", 0, {});
  REQUIRE_FALSE(nonsense);
  CHECK_THAT(nonsense.error().message, Catch::Contains("node0:0") && Catch::Contains("not an IP address"));
  CHECK_FALSE(StoreServer::listen("192.0.2.1", 0, {}));
}

TEST_CASE("long waits name the ranks of their clients") {
  StoreServerOptions options;
  options.ranked_sockets = [] { return std::vector<ddp::store::RankedSocket>(); };
  RunningStore store(options);
  RawPeer waits = current_client(store.port());
  RawPeer other = current_client(store.port());
  waits.says(encode(hello(1, 2, "node0:1"))).hears_bytes(8);
  waits.says(encode(wait({"/k"})));
  other.says(encode(ping(1))).hears(echo_of(1));
  std::vector<ddp::store::LongWait> found;
  REQUIRE(eventually([&] {
    store.with([&](StoreServer& server) { found = server.long_waits(std::chrono::milliseconds(0)); });
    return !found.empty();
  }));
  CHECK(found.front().key == "/k");
  CHECK(found.front().who.waiting == "1");
  store.with([&](StoreServer& server) { CHECK(server.long_waits(std::chrono::hours(1)).empty()); });
}

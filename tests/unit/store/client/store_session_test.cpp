// Tests lost connections and waits in vain. The test acts as the server.
#include "store/client/store_session.h"

#include <functional>

#include "support/catch.h"
#include "support/expect_error.h"
#include "support/scripted_store.h"

using namespace ddp::test;
using namespace std::chrono_literals;
using ddp::connect_tcp_store;
using ddp::ErrorKind;
using ddp::Store;
using Keys = std::vector<std::string>;
using ddp::store::describe;

namespace {

// Holds a client that is rank 1 of 4, and its peer, the server with the id 7.
struct Pair {
  ScriptedStore store;
  std::shared_ptr<Store> client;
  std::optional<RawPeer> server;

  Pair() {
    auto future = beside([options = store.options(1)] { return connect_tcp_store(options); });
    server.emplace(store.greets_rank(1, 7));
    client = future.get();
  }
};

const std::string kEagerGet = encode(check({"/k"})) + encode(multi_get({"/k"}));

}  // namespace

TEST_CASE("ddplaunch's server is asked for a key and its value in one request") {
  Pair pair;
  auto got = beside([&] { return pair.client->get("k"); });
  pair.server->hears(kEagerGet).says(byte_reply(0) + text_reply("v"));
  CHECK(got.get() == "v");
}

TEST_CASE("a get waits for a key that ddplaunch's server does not have yet") {
  Pair pair;
  auto got = beside([&] { return pair.client->get("k"); });
  pair.server->hears(kEagerGet).says(byte_reply(1) + text_reply(""));
  pair.server->hears(encode(wait({"/k"}))).says(byte_reply(0)).hears(encode(multi_get({"/k"}))).says(text_reply("v"));
  CHECK(got.get() == "v");
}

TEST_CASE("PyTorch's server is asked for a value only when the key exists") {
  ScriptedStore store;
  auto future = beside([options = store.options()] { return connect_tcp_store(options); });
  RawPeer server = store.greets();
  const auto client = future.get();
  auto got = beside([&] { return client->get("k"); });
  server.hears(encode(wait({"/k"}))).says(byte_reply(0)).hears(encode(multi_get({"/k"}))).says(text_reply("v"));
  CHECK(got.get() == "v");
}

TEST_CASE("a read is repeated on a new connection to the same server") {
  Pair pair;
  auto got = beside([&] { return pair.client->get("k"); });
  pair.server->hears(kEagerGet).says(byte_reply(0));
  pair.server->vanishes();
  RawPeer again = pair.store.greets_rank(1, 7);
  again.hears(kEagerGet).says(byte_reply(0) + text_reply("v"));
  CHECK(got.get() == "v");
  auto waited = beside([&] { pair.client->wait(Keys{"j"}, kPatience); });
  again.hears(encode(wait({"/j"})));
  again.vanishes();
  RawPeer third = pair.store.greets_rank(1, 7);
  third.hears(encode(wait({"/j"}))).says(byte_reply(0));
  waited.get();
}

TEST_CASE("a read is not repeated endlessly") {
  Pair pair;
  auto got = beside([&] { return pair.client->num_keys(); });
  pair.server->hears(encode(key_count()));
  pair.server->vanishes();
  for (int i = 0; i < ddp::limits::kStoreRepeats; ++i) pair.store.greets_rank(1, 7).hears(encode(key_count()));
  expect_error(ErrorKind::unavailable, {"closed the connection"}, [&] { got.get(); });
}

TEST_CASE("an add whose answer was lost is not repeated, and the next call reconnects") {
  Pair pair;
  auto added = beside([&] { return pair.client->add("n", 1); });
  pair.server->hears(encode(add("/n", 1)));
  pair.server->vanishes();
  expect_error(ErrorKind::unavailable, {"unknown whether ADD of key 'n' was carried out"}, [&] { added.get(); });
  auto read = beside([&] { return pair.client->add("n", 0); });
  pair.store.greets_rank(1, 7).hears(encode(add("/n", 0))).says(number_reply(1));
  CHECK(read.get() == 1);
}

TEST_CASE("an unconfirmed set that may be lost is reported") {
  Pair pair;
  pair.client->set("k", "v");
  auto got = beside([&] { return pair.client->get("j"); });
  pair.server->hears(encode(set("/k", "v")));
  pair.server->vanishes();
  expect_error(ErrorKind::unavailable, {"unknown whether SET of key 'k' was carried out"}, [&] { got.get(); });
  // A later answer confirms the set.
  auto checked = beside([&] {
    pair.client->set("k", "v");
    return pair.client->check(Keys{"k"}) && pair.client->check(Keys{"k"});
  });
  RawPeer again = pair.store.greets_rank(1, 7);
  again.hears(encode(set("/k", "v")) + encode(check({"/k"}))).says(byte_reply(0)).hears(encode(check({"/k"})));
  again.vanishes();
  pair.store.greets_rank(1, 7).hears(encode(check({"/k"}))).says(byte_reply(0));
  CHECK(checked.get());
}

TEST_CASE("a server that replaced the first one is not trusted") {
  Pair pair;
  auto got = beside([&] { return pair.client->get("k"); });
  pair.server->hears(kEagerGet);
  pair.server->vanishes();
  pair.store.greets_rank(1, 8);
  expect_error(ErrorKind::unavailable, {"was replaced"}, [&] { got.get(); });
}

TEST_CASE("requests to a server that has exited fail at once") {
  const std::vector<std::function<void(Store&)>> calls = {
      [](Store& store) { store.get("k"); }, [](Store& store) { store.set("k", "v"); },
      [](Store& store) { store.add("n", 1); }, [](Store& store) { store.wait(Keys{"k"}, kPatience); },
      [](Store& store) { store.barrier("b", 4, kPatience); }};
  for (const auto& call : calls) {
    Pair pair;
    auto got = beside([&] { return pair.client->get("k"); });
    pair.server->hears(kEagerGet);
    pair.store.ends();
    pair.server->vanishes();
    expect_error(ErrorKind::unavailable, {"has ended (Connection refused)", "rank 0, has exited"}, [&] { got.get(); });
    expect_error(ErrorKind::unavailable, {"has ended (Connection refused)"}, [&] { call(*pair.client); });
  }
}

TEST_CASE("another thread does not wait for a server that has exited either") {
  Pair pair;
  auto waits = beside([&] { pair.client->wait(Keys{"k"}, kPatience); });
  pair.server->hears(encode(wait({"/k"})));
  pair.store.ends();
  expect_error(ErrorKind::unavailable, {"has ended (Connection refused)"}, [&] { pair.client->get("j"); });
  pair.server->vanishes();
  expect_error(ErrorKind::unavailable, {"has ended (Connection refused)"}, [&] { waits.get(); });
}

TEST_CASE("a timed-out wait at ddplaunch's server reports where the other ranks are") {
  Pair pair;
  auto waited = beside([&] { pair.client->wait(Keys{"a", "b"}, 1ms); });
  pair.server->hears(encode(wait({"/a", "/b"})) + encode(request(StoreOp::cancel_wait))).says(byte_reply(1));
  pair.server->hears(encode(check({"/a"})) + encode(check({"/b"}))).says(byte_reply(0) + byte_reply(1));
  pair.server->hears(encode(request(StoreOp::explain, {"/b"})));
  pair.server->says(text_reply("0-1") + text_reply("2") + text_reply("3"));
  expect_error(ErrorKind::timeout,
               {"waited 1 ms for key 'b' in the store at 127.0.0.1:" + std::to_string(pair.store.port()) +
                ". Rank 0 waits for it too; rank 2 is connected but does not; rank 3 has not arrived."},
               [&] { waited.get(); });
}

TEST_CASE("a timed-out barrier is cancelled and explained") {
  Pair pair;
  auto waited = beside([&] { pair.client->barrier("b", 4, 1ms); });
  pair.server->hears(encode(request(StoreOp::barrier, {"/b"}, {}, 4)) + encode(request(StoreOp::cancel_wait)));
  pair.server->says(byte_reply(1)).hears(encode(request(StoreOp::explain, {"/b"})));
  pair.server->says(text_reply("1") + text_reply("") + text_reply("0,2-3"));
  expect_error(ErrorKind::timeout, {"at barrier 'b'", "Ranks 0, 2-3 have not arrived."}, [&] { waited.get(); });
}

TEST_CASE("a timed-out wait at PyTorch 1.13's server closes its connection") {
  ScriptedStore store;
  auto future = beside([options = store.options()] { return connect_tcp_store(options); });
  store.accepts();
  RawPeer server = store.accepts();
  const auto legacy = [](const StoreRequest& request) { return encode(request, ddp::wire::StoreDialect::legacy); };
  server.hears(legacy(key_count())).says(number_reply(0));
  const auto client = future.get();
  auto waited = beside([&] { client->wait(Keys{"k"}, 1ms); });
  server.hears(legacy(wait({"/k"})));
  expect_error(ErrorKind::timeout, {"'k'", "every rank"}, [&] { waited.get(); });
  server.is_disconnected();

  auto got = beside([&] { return client->get("k"); });
  store.accepts();
  RawPeer again = store.accepts();
  again.hears(legacy(key_count())).says(number_reply(1));
  again.hears(legacy(wait({"/k"}))).says(byte_reply(0)).hears(legacy(get("/k"))).says(text_reply("v"));
  CHECK(got.get() == "v");
  client->multi_set(Keys{"a", "b"}, Keys{"1", "2"});
  again.hears(legacy(set("/a", "1")) + legacy(set("/b", "2")));
  expect_error(ErrorKind::unavailable, {"APPEND", "1.13"}, [&] { client->append("k", "v"); });
  expect_error(ErrorKind::unavailable, {"LIST_KEYS"}, [&] { client->list_keys(); });
}

TEST_CASE("a wait report lists the ranks that also wait, are elsewhere, or have not arrived") {
  CHECK(describe({"0,2", "1", "3"}, std::nullopt) ==
        "Ranks 0, 2 wait for it too; rank 1 is connected but does not; rank 3 has not arrived.");
  CHECK(describe({"0-3, 7", "4, 5", "6,8-9"}, std::nullopt) ==
        "Ranks 0-3, 7 wait for it too; ranks 4, 5 are connected but do not; ranks 6, 8-9 have not arrived.");
}

TEST_CASE("a wait report leaves out the rank that reads it") {
  CHECK(describe({"2", "1", ""}, 2) == "Rank 1 is connected but does not wait for it.");
  CHECK(describe({"0-2", "", " "}, 0) == "Ranks 1-2 wait for it too.");
  CHECK(describe({"0-2", "", ""}, 1) == "Ranks 0, 2 wait for it too.");
  CHECK(describe({"0-1", "", ""}, 1) == "Rank 0 waits for it too.");
  CHECK(describe({"3", "", ""}, 3).empty());
  CHECK(describe({"", "", ""}, 3).empty());
}

TEST_CASE("describe() shows the parts of a garbled wait report as they are") {
  CHECK(describe({"x", "1-", ""}, 1) == "Rank x waits for it too; rank 1- is connected but does not.");
  CHECK(describe({",,", "", "-"}, 1) == "Rank - has not arrived.");
}

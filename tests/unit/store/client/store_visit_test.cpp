#include "store/client/store_visit.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

#include "support/catch.h"
#include "support/fake_authenticator.h"
#include "support/scripted_store.h"
#include "support/store_server_fixture.h"

using namespace ddp::test;
using ddp::store::StoreVisit;
using ddp::store::VisitFailure;
using Kind = VisitFailure::Kind;
using Authenticator = std::shared_ptr<const ddp::store::Authenticator>;

namespace {

auto visit(std::uint16_t port, Authenticator authenticator = nullptr) {
  return StoreVisit::open("127.0.0.1", port, std::move(authenticator), soon());
}

StoreVisit visitor(std::uint16_t port, Authenticator authenticator = nullptr) {
  auto result = visit(port, std::move(authenticator));
  INFO((result ? "" : result.error().message));
  REQUIRE(result);
  return std::move(result).value();
}

VisitFailure failure(std::uint16_t port, Authenticator authenticator = nullptr) {
  const auto result = visit(port, std::move(authenticator));
  REQUIRE_FALSE(result);
  return result.error();
}

std::unique_ptr<RunningStore> store_with_token(const std::string& secret) {
  ddp::store::StoreServerOptions options;
  options.authenticator = fake_authenticator(secret);
  return std::make_unique<RunningStore>(options);
}

// Answers the greeting as PyTorch's current server and the launcher's do.
RawPeer greeted(ScriptedStore& store) {
  RawPeer client = store.accepts();
  client.hears(encode(validate()));
  const std::string ping = client.hears_bytes(5);
  client.says(ping.substr(1));
  return client;
}

RawPeer asked_who_it_is(ScriptedStore& store, std::uint8_t extensions) {
  RawPeer client = greeted(store);
  client.hears(encode(check({std::string(ddp::wire::kStoreExtensionsKey)}))).says(byte_reply(extensions));
  return client;
}

}  // namespace

TEST_CASE("an inspecting client sees keys, waits and itself") {
  RunningStore store;
  RawPeer waiting(store.port());
  waiting.says(encode(validate()) + encode(hello(1, 4, "node0:7"))).hears_bytes(8);
  waiting.says(encode(set("/k", "value")) + encode(wait({"/go"})));
  StoreVisit anna = visitor(store.port());
  const auto has_come = [&] {
    const auto report = anna.report(soon());
    REQUIRE(report);
    CHECK(std::ranges::count(report.value().clients, anna.own_name(), &ddp::wire::StoreReport::Client::peer) == 1);
    return report.value().key_count == 1 && report.value().clients[0].waiting_ms >= 0;
  };
  const auto until = soon();
  while (!has_come()) REQUIRE(std::chrono::steady_clock::now() < until);
  const auto report = anna.report(soon());
  CHECK(report.value().client_count == 2);
  CHECK(report.value().clients[0].awaited == std::vector<std::string>{"/go"});
  CHECK(report.value().keys[0].name == "/k");
  CHECK(anna.absent_ranks(soon()).value() == "0, 2, 3");
}

TEST_CASE("an inspecting client and the store authenticate each other with the token") {
  const auto store = store_with_token("secret");
  CHECK(visitor(store->port(), fake_authenticator("secret")).report(soon()));
  const VisitFailure wrong = failure(store->port(), fake_authenticator("other"));
  CHECK(wrong.kind == Kind::refused);
  CHECK_THAT(wrong.message, Catch::Contains("has another token"));
}

TEST_CASE("a token for a store without one is reported as an error") {
  const RunningStore store;
  const VisitFailure none = failure(store.port(), fake_authenticator("secret"));
  CHECK(none.kind == Kind::refused);
  CHECK_THAT(none.message, Catch::Contains("has no token"));
}

TEST_CASE("a store that requires the token is distinguished from one that has exited") {
  ScriptedStore store;
  auto refused = beside([port = store.port()] {
    auto anna = StoreVisit::open("127.0.0.1", port, nullptr, soon());
    return anna ? anna.value().report(soon()).error().message : anna.error().message;
  });
  asked_who_it_is(store, 0).hears(encode(inspect()));
  CHECK_THAT(refused.get(), Catch::Contains("requires a token"));
}

TEST_CASE("a closed port is reported as unreachable, so that a retry is possible") {
  const BoundSocket silent;
  const VisitFailure nobody = failure(silent.port());
  CHECK(nobody.kind == Kind::unreachable);
  CHECK(nobody.message ==
        "cannot reach a store at 127.0.0.1:" + std::to_string(silent.port()) + ": Connection refused");
}

TEST_CASE("PyTorch's stores are recognised with a token and without") {
  ScriptedStore store;
  const Authenticator token = GENERATE(Authenticator(), fake_authenticator("secret"));
  auto found = beside([port = store.port(), token] { return StoreVisit::open("127.0.0.1", port, token, soon()); });
  SECTION("of today") {
    if (token) greeted(store).hears_bytes(41);  // upon AUTH_HELLO it closes the connection
    asked_who_it_is(store, 1);
    const auto result = found.get();
    CHECK(result.error().kind == Kind::foreign);
    CHECK_THAT(result.error().message, Catch::EndsWith(" is PyTorch's store, not ddplaunch's"));
  }
  SECTION("of 1.13") {
    store.accepts().hears_bytes(10);
    store.accepts().hears(from_hex("06")).says(number_reply(3));
    CHECK_THAT(found.get().error().message, Catch::Contains("PyTorch's store (a version before 2.2)"));
  }
}

TEST_CASE("another service at the port is reported as not a store") {
  ScriptedStore store;
  auto found = beside([port = store.port()] { return StoreVisit::open("127.0.0.1", port, nullptr, soon()); });
  SECTION("it answers something else") {
    store.accepts().says("HTTP/1.1 400 Bad Request");
    const auto result = found.get();
    CHECK(result.error().kind == Kind::foreign);
    CHECK_THAT(result.error().message, Catch::Contains("is not a store"));
  }
  SECTION("it hangs up") {
    store.accepts().hears_bytes(10);
    store.accepts().hears_bytes(1);
    const auto result = found.get();
    CHECK(result.error().kind == Kind::refused);
    CHECK_THAT(result.error().message, Catch::Contains("refuses this user or node"));
  }
}

TEST_CASE("a report that cannot be parsed or is too long is an error") {
  ScriptedStore store;
  auto visited = beside([port = store.port()] {
    auto anna = StoreVisit::open("127.0.0.1", port, nullptr, soon());
    return anna.value().report(soon()).error();
  });
  RawPeer client = asked_who_it_is(store, 0);
  client.hears(encode(inspect()));
  SECTION("garbage") {
    client.says(text_reply("garbage"));
    CHECK_THAT(visited.get().message, Catch::Contains("another version of ddplaunch"));
  }
  SECTION("a length that is a lie") {
    client.says(std::string(8, '\x7f'));
    CHECK(visited.get().kind == Kind::lost);
  }
}

TEST_CASE("an inspecting client notices that the store has exited") {
  RunningStore store;
  StoreVisit anna = visitor(store.port());
  pollfd entry{anna.fd(), POLLIN, 0};
  CHECK(::poll(&entry, 1, 0) == 0);
  store.stop();
  CHECK(::poll(&entry, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())) == 1);
  CHECK(anna.why_lost() == "it has closed the connection");
  CHECK(anna.report(soon()).error().message.find("127.0.0.1:" + std::to_string(store.port())) != std::string::npos);
}

TEST_CASE("a connection is kept open during the permitted silence") {
  RunningStore store;
  StoreVisit visitor = ::visitor(store.port());
  const auto longest = [&] {
    unsigned time = 0;
    socklen_t size = sizeof time;
    REQUIRE(::getsockopt(visitor.fd(), IPPROTO_TCP, TCP_USER_TIMEOUT, &time, &size) == 0);
    return std::chrono::milliseconds(time);
  };
  const auto usual = longest();
  CHECK(usual.count() > 0);
  visitor.outlast(std::chrono::minutes(3));
  CHECK(longest() == usual + std::chrono::minutes(3));
}

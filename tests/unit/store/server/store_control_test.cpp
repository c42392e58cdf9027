// Tests messages between launchers through a store's server.
#include <condition_variable>
#include <mutex>
#include <vector>

#include "store/client/store_visit.h"
#include "support/catch.h"
#include "support/fake_authenticator.h"
#include "support/sockets.h"
#include "support/store_requests.h"
#include "support/store_server_fixture.h"

using namespace ddp;
using namespace ddp::test;

namespace {

std::string control(const std::string& message) {
  return encode(wire::StoreRequest{.op = wire::StoreOp::control, .keys = {}, .values = {message}});
}

// Runs a store whose coordinator keeps the messages that it receives.
class Coordinator {
 public:
  explicit Coordinator(store::StoreServerOptions options = {}) : store(with_coordinator(std::move(options))) {}

  store::ConnectionId hears(const std::string& message) {
    std::unique_lock lock(mutex_);
    store::ConnectionId from = 0;
    const bool came = changed_.wait_for(lock, kPatience, [&] {
      for (const auto& [id, text] : heard_) {
        if (text == message) from = id;
      }
      return from != 0;
    });
    INFO("a message '" << message << "'");
    CHECK(came);
    return from;
  }

 private:
  store::StoreServerOptions with_coordinator(store::StoreServerOptions options) {
    const auto keep = [this](store::ConnectionId from, const std::string& message) {
      const std::lock_guard lock(mutex_);
      heard_.emplace_back(from, message);
      changed_.notify_all();
    };
    options.on_control = [keep](store::ConnectionId from, const std::string&, const std::string& message) {
      keep(from, message);
    };
    options.on_control_lost = [keep](store::ConnectionId from, bool) { keep(from, "(lost)"); };
    return options;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<store::ConnectionId, std::string>> heard_;

 public:
  RunningStore store;
};

RawPeer launcher(std::uint16_t port) {
  RawPeer peer(port);
  peer.says(encode(validate()) + control("I am b"));
  return peer;
}

}  // namespace

TEST_CASE("a launcher and the coordinator exchange messages until one of them closes") {
  Coordinator coordinator;
  RawPeer b = launcher(coordinator.store.port());
  const auto id = coordinator.hears("I am b");
  coordinator.store.with([&](store::StoreServer& server) { server.send_control(id, "welcome"); });
  b.hears(text_reply("welcome")).says(control("thanks"));
  CHECK(coordinator.hears("thanks") == id);
  coordinator.store.with([&](store::StoreServer& server) {
    server.send_control(id, "bye");
    server.close_control(id);
  });
  // Messages that the client has sent meanwhile do not stop it from reading, and are ignored.
  b.says(control("is anybody there?"));
  b.hears(text_reply("bye")).is_disconnected();
  b.says(control("and now?"));
  // Nothing is sent to a client that has left.
  coordinator.store.with([&](store::StoreServer& server) { server.send_control(id, "too late"); });
}

TEST_CASE("the departure of a launcher is reported to the coordinator") {
  Coordinator coordinator;
  std::optional<RawPeer> b(launcher(coordinator.store.port()));
  const auto id = coordinator.hears("I am b");
  b.reset();
  CHECK(coordinator.hears("(lost)") == id);
}

TEST_CASE("the next attempt begins with an empty store, and the launchers stay connected") {
  Coordinator coordinator;
  RawPeer b = launcher(coordinator.store.port());
  const auto id = coordinator.hears("I am b");
  RawPeer worker(coordinator.store.port());
  worker.says(encode(validate()) + encode(set("/k", "old")) + encode(add("/n", 3))).hears(number_reply(3));
  coordinator.store.with([](store::StoreServer& server) { server.forget_all(); });
  worker.is_disconnected();
  RawPeer next(coordinator.store.port());
  next.says(encode(validate()) + encode(check({"/k"}))).hears(byte_reply(1));
  next.says(encode(add("/n", 1))).hears(number_reply(1));
  b.says(control("still here"));
  CHECK(coordinator.hears("still here") == id);
}

TEST_CASE("a store for one node refuses launchers") {
  RunningStore store;
  RawPeer b = launcher(store.port());
  b.is_disconnected();
  store.complains_of("it is a launcher, but this store serves no job on several nodes");
}

TEST_CASE("messages of a launcher reach the coordinator only after authentication") {
  store::StoreServerOptions options;
  options.authenticator = fake_authenticator("secret");
  Coordinator coordinator(options);
  auto visit = store::StoreVisit::open("127.0.0.1", coordinator.store.port(), fake_authenticator("secret"), soon());
  REQUIRE(visit);
  CHECK(net::send_all(visit.value().fd(), store::StoreVisit::control_request("I am c"), soon()));
  coordinator.hears("I am c");
}

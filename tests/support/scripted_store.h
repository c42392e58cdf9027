// Lets the test act as the store server, on the test's thread, while the client runs on another one.
#pragma once

#include <ddp/store.h>

#include <future>
#include <utility>

#include "support/sockets.h"
#include "support/store_requests.h"

namespace ddp::test {

class ScriptedStore {
 public:
  ScriptedStore() { listener_.listen(); }

  std::uint16_t port() const { return listener_.port(); }
  TcpStoreOptions options(std::optional<int> rank = std::nullopt) const {
    return {"127.0.0.1", listener_.port(), kPatience, rank, rank ? std::optional(4) : std::nullopt};
  }

  // Returns the next client, greeted as by PyTorch's server.
  RawPeer greets() { return greets_with(wire::kStoreNotReady); }
  // Returns the next client, greeted as by the launcher's server.
  RawPeer greets_as_ours() { return greets_with(wire::kStoreReady); }
  // Greets a client as the launcher's server, and receives its rank and name.
  RawPeer greets_rank(std::int64_t rank, std::int64_t server_id) {
    RawPeer client = greets_as_ours();
    std::string head;
    wire::put_u8(head, 0xD0);
    wire::put_i64(head, rank);
    wire::put_u32(head, 4);
    client.hears(head);
    const std::string name = client.hears_text();
    CHECK(name.ends_with(":" + std::to_string(::getpid())));
    client.says(number_reply(server_id));
    return client;
  }
  RawPeer accepts() { return RawPeer(listener_.accept()); }
  // The kernel refuses connections from now on. The port stays in use.
  void ends() { REQUIRE(::shutdown(listener_.fd(), SHUT_RDWR) == 0); }

 private:
  RawPeer greets_with(std::uint8_t extensions) {
    RawPeer client = accepts();
    client.hears(encode(validate()));
    const std::string ping = client.hears_bytes(5);
    client.hears(encode(check({std::string(wire::kStoreExtensionsKey)})));
    client.says(ping.substr(1) + byte_reply(extensions));
    return client;
  }

  BoundSocket listener_;
};

template <typename Action>
auto beside(Action action) {
  return std::async(std::launch::async, std::move(action));
}

}  // namespace ddp::test

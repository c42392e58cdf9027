#include "runtime/peers/wait_for_ranks.h"

#include <ddp/error.h>
#include <ddp/store.h>

#include <functional>
#include <future>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/expect_error.h"
#include "support/scripted_store.h"

using namespace ddp;
using namespace ddp::internal;
using namespace std::chrono_literals;

namespace {

const std::vector<std::string> kKeys = {"rank 0", "rank 1"};

}  // namespace

TEST_CASE("a rank waits until all others have arrived") {
  for (const bool checks : {false, true}) {
    const auto store = make_memory_store(1min);
    store->set(kKeys[0], "");
    auto waits = std::async(std::launch::async,
                            [&] { wait_for_ranks(*store, kKeys, 1min, {}, checks ? [] {} : std::function<void()>()); });
    CHECK(waits.wait_for(50ms) == std::future_status::timeout);
    store->set(kKeys[1], "");
    waits.get();
  }
}

TEST_CASE("a rank that waits in vain gives up at its timeout and not earlier") {
  const auto store = make_memory_store(1min);
  for (const bool checks : {false, true}) {
    const auto began = std::chrono::steady_clock::now();
    try {
      wait_for_ranks(*store, kKeys, 50ms, {}, checks ? [] {} : std::function<void()>());
      FAIL("nobody came");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::timeout);
    }
    CHECK(std::chrono::steady_clock::now() - began >= 50ms);
  }
}

TEST_CASE("a rank that has arrived may have exited since") {
  const auto store = make_memory_store(1min);
  store->set(kKeys[0], "");
  wait_for_ranks(*store, kKeys, 1min, {}, [&] {
    store->set(kKeys[1], "");
    throw Error(ErrorKind::peer_lost, "rank 1 has exited", 1);
  });
}

TEST_CASE("a rank that loses the store together with its server names the server's rank") {
  test::ScriptedStore server;
  auto connected = test::beside([options = server.options()] { return connect_tcp_store(options); });
  test::RawPeer peer = server.greets();
  const auto store = connected.get();
  peer.vanishes();
  int checks = 0;
  const auto check = [&] {
    if (++checks == 3) throw Error(ErrorKind::peer_lost, "rank 0 has exited", 0);
  };
  test::expect_error(ErrorKind::peer_lost, {"rank 0 has exited"},
                     [&] { wait_for_ranks(*store, kKeys, 1min, {}, check); });
  test::expect_error(ErrorKind::unavailable, {"lost before"}, [&] { wait_for_ranks(*store, kKeys, 1min, {}, check); });
}

TEST_CASE("a rank that waits for an exited rank gets an error") {
  const auto store = make_memory_store(1min);
  try {
    wait_for_ranks(*store, kKeys, 1min, {}, [] { throw Error(ErrorKind::peer_lost, "rank 1 has exited", 1); });
    FAIL("nobody came");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::peer_lost);
    CHECK(error.peer() == 1);
  }
}

#include "store/server/store_thread.h"

#include <ddp/store.h>

#include <future>

#include "support/catch.h"
#include "support/deadline.h"

using namespace ddp::test;
using ddp::store::StoreServer;
using ddp::store::StoreThread;

namespace {

std::unique_ptr<StoreThread> thread_on_any_port() {
  auto server = StoreServer::listen("127.0.0.1", 0, {});
  REQUIRE(server);
  return std::make_unique<StoreThread>(std::move(server).value());
}

}  // namespace

TEST_CASE("a store on a thread serves clients and stops") {
  auto thread = thread_on_any_port();
  auto client = ddp::connect_tcp_store("127.0.0.1", thread->port(), kPatience);
  client->set("k", "v");
  CHECK(client->get("k") == "v");
  client.reset();
  thread.reset();
}

TEST_CASE("a stopping store on a thread serves its clients until they leave") {
  auto thread = thread_on_any_port();
  auto client = ddp::connect_tcp_store("127.0.0.1", thread->port(), kPatience);
  auto stopped = std::async(std::launch::async, [&] { thread.reset(); });
  for (int i = 1; i <= 3; ++i) CHECK(client->add("n", 1) == i);
  client.reset();
  stopped.get();
}

#include "launcher/run/job/store_listener.h"

#include <cerrno>
#include <cstring>

#include "support/catch.h"
#include "support/sockets.h"

using namespace ddp::launcher;

TEST_CASE("a store listens at the first address of a name that belongs to this node") {
  for (const char* host : {"127.0.0.1", "localhost", "::"}) {
    CAPTURE(host);
    const auto server = listen_at(host, 0, {}, "--host");
    REQUIRE(server);
    CHECK(server.value()->port() != 0);
    ddp::test::RawPeer(server.value()->port());
  }
}

TEST_CASE("a name that cannot be resolved is reported with its option") {
  const auto server = listen_at("name.invalid", 0, {}, "--host");
  REQUIRE_FALSE(server);
  CHECK_THAT(server.error().message, Catch::StartsWith("cannot serve the store on name.invalid: ") &&
                                         Catch::EndsWith("Give an address of this node with --host"));
}

TEST_CASE("a port that is in use is reported with its address") {
  ddp::test::BoundSocket taken;
  taken.listen();
  const auto server = listen_at("127.0.0.1", taken.port(), {}, "--host");
  REQUIRE_FALSE(server);
  CHECK(server.error().message ==
        "cannot listen on 127.0.0.1:" + std::to_string(taken.port()) + ": Address already in use");
}

TEST_CASE("a failure to listen suggests only remedies that apply") {
  const auto remedy = [](int error) {
    return listen_remedy(std::string("cannot listen on [::2]:80: ") + std::strerror(error), "--local-addr", "--port=");
  };
  CHECK(remedy(EADDRNOTAVAIL) == " The address must belong to this node (--local-addr).");
  CHECK_THAT(remedy(EADDRINUSE), Catch::Contains("--port=0 takes a free port"));
  CHECK_THAT(remedy(EACCES), Catch::Contains("below 1024"));
  CHECK_THAT(remedy(EMFILE), Catch::Contains("ulimit -n"));
  CHECK(remedy(ENOMEM).empty());
}

#include "launcher/see/store_command/store_command.h"

#include <cerrno>
#include <cstring>

#include "support/catch.h"

using namespace ddp::launcher;

namespace {

StoreOptions at(const std::string& host) {
  StoreOptions options;
  options.host = host;
  return options;
}

}  // namespace

TEST_CASE("the first line shows the store's address and the variables for programs") {
  CHECK(serving_line(at("127.0.0.1"), 29500, "node0") ==
        "the store listens on 127.0.0.1:29500; programs find it with MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 "
        "TORCHELASTIC_USE_AGENT_STORE=True TORCHELASTIC_RESTART_COUNT=0, and ddplaunch store --inspect 127.0.0.1:29500 "
        "shows which clients wait for which keys");
  CHECK_THAT(serving_line(at("::1"), 7, "node0"),
             Catch::Contains("on [::1]:7;") && Catch::Contains("MASTER_ADDR=::1 ") && Catch::Contains("[::1]:7 shows"));
}

TEST_CASE("a store that listens on all addresses is named by its host name") {
  for (const char* everywhere : {"::", "0.0.0.0"}) {
    CHECK_THAT(serving_line(at(everywhere), 7, "node0"),
               Catch::Contains("MASTER_ADDR=node0 ") && Catch::Contains("--inspect node0:7 "));
  }
}

TEST_CASE("a port in use may belong to a store that can be queried") {
  const std::string taken = std::string("cannot listen on ::: ") + std::strerror(EADDRINUSE);
  CHECK_THAT(listen_failure(at("10.0.0.1"), taken), Catch::Contains("ddplaunch store --inspect 10.0.0.1:29500 "));
  CHECK_THAT(listen_failure(at("::"), taken), Catch::Contains("ddplaunch store --inspect 127.0.0.1:29500 "));
  CHECK(listen_failure(at("10.0.0.1"), "cannot listen") == "cannot listen.");
}

TEST_CASE("a token that protects nothing gives a warning") {
  StoreOptions options = at("127.0.0.1");
  CHECK(store_warnings(options, "").empty());
  // A variable may be set for all of a cluster's jobs, so it causes no warning.
  CHECK(store_warnings(options, "DDP_AUTH_TOKEN").empty());
  options.auth_token_file = "/t";
  CHECK(store_warnings(options, "--auth-token-file=/t").at(0) ==
        "--auth-token-file=/t has no effect: the store listens on 127.0.0.1, which other nodes cannot reach (--host)");
  options.host = "10.0.0.1";
  CHECK(store_warnings(options, "--auth-token-file=/t").empty());
  options.open = true;
  CHECK(store_warnings(options, "--auth-token-file=/t").at(0) ==
        "--auth-token-file=/t has no effect together with --store-open");
}

#include "runtime/init/init_method.h"

#include "support/catch.h"
#include "support/expect_error.h"

using namespace ddp;
using namespace ddp::internal;
using ddp::test::expect_error;
using Kind = InitMethod::Kind;

TEST_CASE("init methods are parsed as in torch.distributed") {
  CHECK(parse_init_method("env://").kind == Kind::environment);
  const InitMethod tcp = parse_init_method("tcp://node0:29500?rank=1&world_size=4");
  CHECK(tcp.kind == Kind::tcp);
  CHECK(tcp.host == "node0");
  CHECK(tcp.port == 29500);
  CHECK(tcp.rank == 1);
  CHECK(tcp.world_size == 4);
  CHECK(parse_init_method("tcp://[::1]:1").host == "::1");
  CHECK(parse_init_method("tcp://[fe80::1%25eth0]:1").host == "fe80::1%eth0");
  CHECK_FALSE(parse_init_method("tcp://h:1").rank);
  const InitMethod file = parse_init_method("file:///tmp/a%20b%3f?world_size=2");
  CHECK(file.kind == Kind::file);
  CHECK(file.path == "/tmp/a b?");
  CHECK(file.world_size == 2);
}

TEST_CASE("an invalid init method is an error that shows the valid forms") {
  const std::pair<const char*, const char*> cases[] = {
      {"", "unknown scheme"},
      {"http://h:1", "unknown scheme"},
      {"env://x", "unknown scheme"},
      {"tcp://h", "no port"},
      {"tcp://[::1]", "no port"},
      {"tcp://:1", "no host"},
      {"tcp://::1:1", "brackets"},
      {"tcp://h:0", "not a port"},
      {"tcp://h:65536", "not a port"},
      {"tcp://h:x", "not a port"},
      {"tcp://h/x:1", "not a host"},
      {"tcp://h:1?rank=-1", "rank=-1"},
      {"tcp://h:1?world_size=0", "world_size=0"},
      {"tcp://h:1?rank", "rank="},
      {"tcp://h:1?rank=1&rank=1", "twice"},
      {"tcp://h:1?size=1", "'size'"},
      {"file://tmp/x", "slash"},
      {"file:///tmp/", "directory"},
      {"file:///a%2", "two hexadecimal"},
      {"file:///a%00b", "two hexadecimal"},
  };
  for (const auto& [text, word] : cases) {
    INFO(text);
    expect_error(ErrorKind::invalid_argument, {word, "tcp://HOST:PORT"},
                 [method = text] { parse_init_method(method); });
  }
}

TEST_CASE("ranks come from the init method, then from the options, then from the environment") {
  StartEnvironment environment;
  environment.rank = 5;
  environment.world_size = 8;
  environment.has_ranks = true;
  CHECK(with_ranks(parse_init_method("env://"), std::nullopt, std::nullopt, environment).rank == 5);
  CHECK(with_ranks(parse_init_method("tcp://h:1?rank=1"), std::nullopt, 4, environment).rank == 1);
  CHECK(with_ranks(parse_init_method("tcp://h:1?rank=1"), 1, 4, environment).world_size == 4);
  CHECK(with_ranks(parse_init_method("file:///x"), 2, std::nullopt, environment).world_size == 8);
  CHECK(with_ranks(parse_init_method("env://"), std::nullopt, std::nullopt, {}).world_size == 1);
}

TEST_CASE("contradicting or missing ranks are errors") {
  expect_error(ErrorKind::invalid_argument, {"rank is 1", "2 in InitOptions"},
               [] { with_ranks(parse_init_method("tcp://h:1?rank=1"), 2, 4, {}); });
  expect_error(ErrorKind::invalid_argument, {"world_size is not given"},
               [] { with_ranks(parse_init_method("tcp://h:1?rank=1"), std::nullopt, std::nullopt, {}); });
  expect_error(ErrorKind::invalid_argument, {"rank is not given", "RANK"},
               [] { with_ranks(parse_init_method("file:///x"), std::nullopt, 2, {}); });
  expect_error(ErrorKind::invalid_argument, {"rank 4", "4 ranks"},
               [] { with_ranks(parse_init_method("file:///x?rank=4&world_size=4"), std::nullopt, std::nullopt, {}); });
}

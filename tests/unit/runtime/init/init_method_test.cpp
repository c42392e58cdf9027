#include "runtime/init/init_method.h"

#include <functional>
#include <future>
#include <thread>

#include "support/catch.h"
#include "support/deadline.h"
#include "support/expect_error.h"
#include "support/sockets.h"
#include "support/temporary_directory.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;
using Kind = InitMethod::Kind;

namespace {

StartEnvironment rank_of_two(int rank) {
  StartEnvironment environment;
  environment.rank = rank;
  environment.world_size = 2;
  return environment;
}

auto beside(std::function<void()> action) {
  return std::async(std::launch::async, std::move(action));
}

}  // namespace

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

TEST_CASE("rank 0 serves the store itself if no launcher does") {
  std::uint16_t port = 0;
  {
    const BoundSocket free;
    port = free.port();
  }
  const auto method = parse_init_method("tcp://localhost:" + std::to_string(port));
  auto second = std::async(std::launch::async, [&] { return reach_store(method, rank_of_two(1), kPatience); });
  const auto first = reach_store(method, rank_of_two(0), kPatience);
  first->set("k", "v");
  CHECK(second.get()->get("k") == "v");
  // A second call in the same process reaches the same server.
  CHECK(reach_store(method, rank_of_two(0), kPatience)->get("k") == "v");
}

TEST_CASE("a port in use is an error that says what to do") {
  BoundSocket taken;
  taken.listen();
  const auto method = parse_init_method("tcp://127.0.0.1:" + std::to_string(taken.port()));
  expect_error(ErrorKind::unavailable, {std::to_string(taken.port()), "free port", "TORCHELASTIC_USE_AGENT_STORE"},
               [&] { reach_store(method, rank_of_two(0), kPatience); });
}

TEST_CASE("a world of one needs no store, and a larger one needs its address") {
  StartEnvironment alone;
  reach_store({}, alone, kPatience)->set("k", "v");
  expect_error(ErrorKind::invalid_argument, {"MASTER_ADDR", "init_method"},
               [] { reach_store({}, rank_of_two(0), kPatience); });
  StartEnvironment mpi = rank_of_two(0);
  mpi.under_mpirun = true;
  expect_error(ErrorKind::unavailable, {"mpirun"}, [&] { reach_store({}, mpi, kPatience); });
}

TEST_CASE("ranks can meet repeatedly through a file, and the last one removes it") {
  const TemporaryDirectory directory;
  const auto method = parse_init_method("file://" + directory.path() + "/store");
  for (int round = 0; round < 3; ++round) {
    auto second = beside([&] { reach_store(method, rank_of_two(1), kPatience)->get("go"); });
    reach_store(method, rank_of_two(0), kPatience)->set("go", "");
    second.get();
  }
  CHECK(::access(method.path.c_str(), F_OK) != 0);
}

TEST_CASE("a file from an earlier run is rejected on every rank") {
  // In the earlier run one rank came, or both. In the new one, rank 0 or rank 1 comes first.
  const bool both = GENERATE(false, true);
  const int first = GENERATE(0, 1);
  const auto store = make_memory_store(kPatience);
  store->set("ddp/0/came/0", "old");
  if (both) store->set("ddp/0/came/1", "old");
  const auto come = [&](int rank) {
    expect_error(ErrorKind::mismatch, {"'/f'", "earlier run", "Remove the file"},
                 [&] { meet_in_file(*store, "/f", rank_of_two(rank), "new"); });
  };
  if (first == 1 && !both) {
    ErrorKind kind = ErrorKind::internal;
    auto second = std::async(std::launch::async, [&] {
      try {
        meet_in_file(*store, "/f", rank_of_two(1), "new");
      } catch (const Error& error) {
        kind = error.kind();
      }
    });
    store->get("ddp/0/met/1");  // rank 1 takes the old rank 0 for a new one, and waits to be seen
    come(0);
    second.get();
    CHECK(kind == ErrorKind::mismatch);
  } else {
    come(first);
    come(1 - first);
  }
}

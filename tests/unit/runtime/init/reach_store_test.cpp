#include "runtime/init/reach_store.h"

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

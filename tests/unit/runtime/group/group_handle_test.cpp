// Tests a ProcessGroup as a handle: copies, batches, and the arguments that it accepts.
#include <ddp/process_group.h>

#include <array>
#include <chrono>
#include <functional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/backends_under_test.h"
#include "support/catch.h"
#include "support/expect_error.h"
#include "support/rank_threads.h"
#include "support/scripted_backend.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

TEST_CASE("copies refer to the same group, and a moved-from group reports its state") {
  ScriptedGroup scripted(3, 2);
  const ProcessGroup copy = scripted.group;
  ProcessGroup moved = std::move(scripted.group);
  moved.barrier().wait();
  CHECK(copy.rank() == 2);
  copy.abort();
  expect_error(ErrorKind::aborted, {"aborted"}, [&] { moved.barrier().wait(); });
  // NOLINTNEXTLINE(bugprone-use-after-move): what it says is what is tested
  expect_error(ErrorKind::invalid_argument, {"this ProcessGroup is empty", "moved from", "init()"},
               [&] { (void)scripted.group.rank(); });
  expect_error(ErrorKind::invalid_argument, {"this ProcessGroup is empty"}, [] { (void)ProcessGroup().batch(); });
}

TEST_CASE("a moved-from work and a moved-from memory report their state") {
  ScriptedGroup scripted;
  Work work = scripted.group.barrier();
  Work moved = std::move(work);
  moved.wait();
  // NOLINTBEGIN(bugprone-use-after-move): what they say is what is tested
  const std::vector<std::function<void()>> calls = {
      [&] { work.wait(); }, [&] { (void)work.wait_for(std::chrono::seconds(1)); }, [&] { (void)work.done(); },
      [&] { work.then([](const Error*) {}); }};
  for (const auto& call : calls) expect_error(ErrorKind::invalid_argument, {"this Work is empty", "moved from"}, call);
  work = std::move(moved);
  work.wait();
  Memory memory = scripted.group.allocate(4, DataType::f32);
  const Memory other = std::move(memory);
  expect_error(ErrorKind::invalid_argument, {"f32[4]", "no memory"}, [&] { (void)scripted.group.all_reduce(memory); });
  expect_error(ErrorKind::invalid_argument, {"4 elements", "no memory"}, [&] { (void)memory.as<float>(); });
  CHECK(memory.data() == nullptr);
  // NOLINTEND(bugprone-use-after-move)
  CHECK(other.as<float>().size() == 4);
  memory = scripted.group.allocate(2, DataType::f32);
  CHECK(memory.as<float>().size() == 2);
}

TEST_CASE("a rank knows its local rank and the devices of its collectives") {
  RankThreads(make_cpu_backend, 3)
      .on([](int rank) { return rank == 1 ? "a" : "b"; })
      .all_succeed([](RankThreads::Rank& self) {
        require(self.group().local_size() == (self.rank() == 1 ? 1 : 2), "local_size");
        require(self.group().local_rank() == (self.rank() == 2 ? 1 : 0), "local_rank");
        require(self.group().device() == Device{DeviceType::cpu, 0}, "device");
      });
}

TEST_CASE("collectives of nested batches begin at the end of the outermost batch") {
  ScriptedGroup scripted;
  std::vector<float> values(5);
  std::vector<Work> works;
  {
    const CollectiveBatch outer = scripted.group.batch();
    {
      CollectiveBatch inner = scripted.group.batch();
      const CollectiveBatch moved = std::move(inner);
      works.push_back(scripted.group.all_reduce(values));
    }
    works.push_back(scripted.group.all_reduce(values));
    CHECK(scripted.script->calls().empty());
  }
  for (Work& work : works) work.wait();
  CHECK(scripted.script->calls().size() == 2);
}

TEST_CASE("an operation does not accept a temporary, which would be destroyed before the operation ends") {
  STATIC_REQUIRE_FALSE(std::is_convertible_v<std::vector<float>, ConstBuffer>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<const std::vector<float>, ConstBuffer>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<std::array<double, 2>, ConstBuffer>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<std::vector<float>, Buffer>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<std::array<double, 2>, Buffer>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<Memory, Buffer>);
  STATIC_REQUIRE_FALSE(std::is_convertible_v<Memory, ConstBuffer>);
  STATIC_REQUIRE(std::is_convertible_v<const std::vector<float>&, ConstBuffer>);
  STATIC_REQUIRE(std::is_convertible_v<std::vector<float>&, Buffer>);
  STATIC_REQUIRE(std::is_convertible_v<std::span<const float>, ConstBuffer>);
  STATIC_REQUIRE(std::is_convertible_v<Memory&, Buffer>);
}

#include "runtime/backend/cpu/near_memory.h"

#include <ddp/error.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <optional>
#include <thread>
#include <vector>

#include "support/backends_under_test.h"
#include "support/catch.h"
#include "support/expect_error.h"
#include "support/node_groups.h"
#include "support/rank_threads.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

TEST_CASE("a failed rank waits until others stop reading its memory, and later readers are refused") {
  const auto groups = meet_on_one_node(3);
  std::atomic<bool> has_left = false;
  std::optional<InPlace> reading(*groups[1]);
  groups[0]->say_failed();
  std::thread failed([&] {
    NearMemory(groups[0], true).await_others();
    if (!has_left) std::abort();
  });
  expect_error(ErrorKind::peer_lost, {"rank 0 has failed"}, [&] { const InPlace late(*groups[2]); });
  has_left = true;
  reading.reset();
  failed.join();
  expect_error(ErrorKind::peer_lost, {"rank 0 has failed"}, [&] { const InPlace again(*groups[1]); });
  NearMemory(groups[0], true).await_others();  // refused accesses have left, too
}

TEST_CASE("a failing rank and a rank that starts reading its memory always notice each other") {
  constexpr int kRounds = 20000;
  const auto groups = meet_on_one_node(2);
  std::atomic<int> arrived = 0;
  std::atomic<bool> is_freed = false;
  std::atomic<int> wrong = 0;
  const auto meet = [&](int number) {
    for (++arrived; arrived < 2 * number;) std::this_thread::yield();
  };
  std::thread user([&] {
    for (int i = 1; i <= kRounds; ++i) {
      meet(2 * i - 1);
      try {
        const InPlace in_place(*groups[1]);
        for (int read = 0; read < 20; ++read) wrong += is_freed ? 1 : 0;
      } catch (const Error&) {
      }
      meet(2 * i);
    }
  });
  const NearMemory near(groups[0], true);
  for (int i = 1; i <= kRounds; ++i) {
    is_freed = false;
    groups[0]->own_area().state = RankState::working;
    meet(2 * i - 1);
    groups[0]->say_failed();
    near.await_others();
    is_freed = true;
    meet(2 * i);
  }
  user.join();
  CHECK(wrong == 0);
}

TEST_CASE("the path of a small collective depends on its size and on mapped memory") {
  struct Row {
    Operation operation;
    std::size_t ranks, copied, eager;
  };
  const Row rows[] = {{Operation::all_reduce, 2, 512, 32768},  {Operation::all_reduce, 8, 512, 8192},
                      {Operation::reduce, 2, 2048, 32768},     {Operation::broadcast, 8, 2048, 32768},
                      {Operation::all_gather, 2, 1024, 32768}, {Operation::reduce_scatter, 2, 4096, 32768},
                      {Operation::all_to_all, 2, 2048, 0},     {Operation::gather, 2, 2048, 0}};
  for (const Row& row : rows) {
    INFO(to_string(row.operation));
    CHECK(copied_up_to(row.operation, true) == row.copied);
    CHECK(copied_up_to(row.operation, false) > eager_up_to(row.operation, row.ranks));
    CHECK(eager_up_to(row.operation, row.ranks) == row.eager);
  }
  CHECK(small_path(2, 0) == SmallPath::copied);
  CHECK(small_path(2, 1) == SmallPath::copied_late);
  CHECK(small_path(2, 2) == SmallPath::near);
  CHECK(small_path(8, 7) == SmallPath::copied_late);
  CHECK(small_path(1, 1) == SmallPath::near);
}

TEST_CASE("small collectives are correct whichever ranks have mapped memory") {
  constexpr std::size_t kRanks = 2;  // with more ranks than processors, all data are copied
  RankThreads(make_cpu_backend, kRanks).all_succeed([](RankThreads::Rank& self) {
    const auto rank = static_cast<std::size_t>(self.rank());
    for (const std::size_t count : {1, 128, 129, 512, 513, 2000}) {
      const Memory near_one = self.group().allocate(count, DataType::f32);
      const Memory near_all = self.group().allocate(kRanks * count, DataType::f32);
      std::vector<float> own_one(count);
      std::vector<float> own_all(kRanks * count);
      for (unsigned mapped = 0; mapped < 1U << kRanks; ++mapped) {
        const bool is_mapped = (mapped >> rank & 1U) != 0;
        const Buffer one = is_mapped ? near_one.buffer() : Buffer(own_one);
        const Buffer all = is_mapped ? near_all.buffer() : Buffer(own_all);
        const auto values = one.as<float>();
        const auto parts = all.as<float>();
        const auto value = [](std::size_t i, std::size_t of) { return static_cast<float>(i % 100 + of); };
        const auto fill = [&] {
          for (std::size_t i = 0; i < count; ++i) values[i] = value(i, rank);
        };
        for (std::size_t root = 0; root < kRanks; ++root) {
          fill();
          self.group().all_reduce(one).wait();
          for (std::size_t i = 0; i < count; ++i) require(values[i] == value(i, 0) + value(i, 1), "all_reduce");
          fill();
          self.group().reduce(one, static_cast<int>(root)).wait();
          for (std::size_t i = 0; i < count && rank == root; ++i)
            require(values[i] == value(i, 0) + value(i, 1), "reduce");
          fill();
          self.group().broadcast(one, static_cast<int>(root)).wait();
          for (std::size_t i = 0; i < count; ++i) require(values[i] == value(i, root), "broadcast");
          fill();
          self.group().all_gather(all, one).wait();
          for (std::size_t i = 0; i < parts.size(); ++i) {
            require(parts[i] == value(i % count, i / count), "all_gather");
          }
          self.group().reduce_scatter(one, all).wait();
          for (std::size_t i = 0; i < count; ++i) require(values[i] == 2 * value(i, rank), "reduce_scatter");
        }
      }
    }
  });
}

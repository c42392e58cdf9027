// Two ranks of mpirun check every collective (mpi_test.sh). An argument changes what they do:
//   silent   rank 1 waits and does not take part in the last barrier
//   fail     rank 1 ends with 3 instead of taking part in it
//   throw    rank 1 throws instead of taking part in it
//   differ   rank 1 calls something else
//   missing  rank 1 does not call a monitored barrier
//   groups   four ranks check groups of some of them
#include <ddp/error.h>
#include <ddp/init.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/collective_checks.h"

namespace {

template <typename T>
void expect(const std::vector<T>& values, const std::vector<T>& expected, const char* what) {
  if (values == expected) return;
  std::fprintf(stderr, "wrong: %s\n", what);
  std::exit(1);  // NOLINT(concurrency-mt-unsafe)
}

template <typename T>
void check_reductions(ddp::ProcessGroup& world, const char* type) {
  const T own = world.rank() == 0 ? T{2} : T{5};
  const auto reduced = [&](ddp::ReduceOp op) {
    std::vector<T> values(1000, own);
    world.all_reduce(values, op).wait();
    return values;
  };
  expect(reduced(ddp::ReduceOp::sum), std::vector<T>(1000, T{7}), type);
  expect(reduced(ddp::ReduceOp::product), std::vector<T>(1000, T{10}), type);
  expect(reduced(ddp::ReduceOp::min), std::vector<T>(1000, T{2}), type);
  expect(reduced(ddp::ReduceOp::max), std::vector<T>(1000, T{5}), type);
}

void check_all(ddp::ProcessGroup& world) {
  check_reductions<float>(world, "f32");
  check_reductions<double>(world, "f64");
  check_reductions<std::int32_t>(world, "i32");
  check_reductions<std::int64_t>(world, "i64");
  check_reductions<std::uint8_t>(world, "u8");

  std::vector<double> average = {static_cast<double>(world.rank()), 3.0};
  world.all_reduce(average, ddp::ReduceOp::average).wait();
  expect(average, {0.5, 3.0}, "average");

  std::vector<std::int64_t> sent(100, world.rank() == 1 ? 9 : 0);
  world.broadcast(sent, 1).wait();
  expect(sent, std::vector<std::int64_t>(100, 9), "broadcast");

  std::vector<std::int32_t> expected;
  for (int rank = 0; rank < 2; ++rank) {
    for (int index = 0; index < 20; ++index) expected.push_back(100 * rank + index);
  }
  std::vector<std::int32_t> own(expected.begin() + 20 * world.rank(), expected.begin() + 20 * world.rank() + 20);
  std::vector<std::int32_t> all(40);
  world.all_gather(all, own).wait();
  expect(all, expected, "all_gather");
  std::vector<std::int32_t> in_place(40);
  const ddp::Buffer whole(in_place);
  const ddp::Buffer part = whole.slice(static_cast<std::size_t>(20 * world.rank()), 20);
  std::copy(own.begin(), own.end(), part.as<std::int32_t>().begin());
  world.all_gather(whole, part).wait();
  expect(in_place, expected, "all_gather in place");

  for (const ddp::DataType type : ddp::kDataTypes) {
    for (const std::size_t count : {0, 1, 7, 1021}) ddp::test::check_everything(world, type, count);
  }
}

// Four ranks check overlapping pairs and triples, made from lists and from colors, and groups of groups.
void check_groups(ddp::ProcessGroup& world) {
  const int rank = world.rank();
  const int partner = rank ^ 1;
  const std::vector<int> pair = {std::max(rank, partner), std::min(rank, partner)};
  ddp::ProcessGroup pairs = world.new_group(pair);
  ddp::test::check_everything(pairs, ddp::DataType::f32, 100);
  std::optional<ddp::ProcessGroup> halves = world.split(rank % 2, -rank);
  ddp::test::check_everything(*halves, ddp::DataType::i16, 100);
  if (rank != 3) {
    // Two threads make groups at the same time, and some ranks are in both groups. A group of a group numbers its own
    // ranks.
    const std::vector<int> all = {0, 1, 2};
    std::thread beside([&] {
      ddp::ProcessGroup triple = world.new_group(std::vector<int>{2, 1, 0}, "beside");
      ddp::test::check_everything(triple, ddp::DataType::f64, 100);
    });
    ddp::ProcessGroup triple = world.new_group(all);
    ddp::test::check_everything(triple, ddp::DataType::bf16, 100);
    if (rank != 0) {
      ddp::ProcessGroup inner = triple.new_group(std::vector<int>{2, 1}, "inner");
      std::vector<std::int32_t> ranks(2);
      const std::array<std::int32_t, 1> own = {rank};
      inner.all_gather(ranks, own).wait();
      expect(ranks, {2, 1}, "a group of a group");
    }
    beside.join();
  }
  world.monitored_barrier();
  if (rank == 0) std::puts("all groups are right");
}

// Waits until both ranks have printed why they fail.
void wait_for_failures(std::string_view kind) {
  const auto file = [&](const std::string& rank) { return "failed." + std::string(kind) + "." + rank; };
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  std::ofstream(file(rank == nullptr ? "" : rank)) << '\n';
  while (!std::filesystem::exists(file("0")) || !std::filesystem::exists(file("1"))) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view action = argc > 1 ? argv[1] : "";
  try {
    if (action == "groups") {
      ddp::ProcessGroup world = ddp::init();
      check_groups(world);
      return 0;
    }
    // MPI can be initialized only once, but process groups can be made again.
    for (int round = 0; round < 2; ++round) {
      ddp::ProcessGroup world = ddp::init();
      check_all(world);
    }
    ddp::ProcessGroup world = ddp::init();
    if (world.rank() == 1 && action == "silent") ::pause();
    if (action == "silent") world.barrier({.timeout = std::chrono::milliseconds(300), .name = {}}).wait();
    if (world.rank() == 1 && action == "fail") return 3;
    if (world.rank() == 1 && action == "throw") throw ddp::Error(ddp::ErrorKind::internal, "on its own");
    if (action == "differ") {
      std::vector<float> values(world.rank() == 1 ? 5 : 4);
      world.all_reduce(values).wait();
    }
    if (action == "missing") {
      world.monitored_barrier();
      if (world.rank() == 1) ::pause();
      world.monitored_barrier(std::chrono::milliseconds(300));
    }
    world.barrier().wait();
    if (world.rank() == 0) std::puts("all collectives are right");
    return 0;
  } catch (const ddp::Error& error) {
    std::fprintf(stderr, "%s: %s\n", std::string(to_string(error.kind())).c_str(), error.what());
    // mpirun terminates all ranks as soon as one has ended.
    if (action == "throw" || action == "differ") wait_for_failures(action);
    return 1;
  }
}

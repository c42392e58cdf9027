// Tests what collectives compute: every operation, type, reduction and backend against a reference in double precision.
#include <ddp/process_group.h>

#include "support/backends_under_test.h"
#include "support/catch.h"
#include "support/collective_checks.h"
#include "support/rank_threads.h"

using namespace ddp;
using namespace ddp::test;

namespace {

// The counts are: none, one, fewer than ranks, an odd number, and no multiple of any vector's width.
constexpr std::array<std::size_t, 5> kCounts = {0, 1, 3, 7, 1021};

// Checks every operation, type and reduction, with 1 to 8 ranks by default.
void check_backend(const BackendUnderTest& backend, const std::vector<int>& sizes = {1, 2, 3, 4, 5, 6, 7, 8}) {
  for (const int size : sizes) {
    INFO(backend.name << ", " << size << " ranks");
    const bool thorough = size <= backend.thorough_ranks;
    RankThreads(backend.make, size).all_succeed([&](RankThreads::Rank& self) {
      for (const DataType type : kDataTypes) {
        for (const std::size_t count : kCounts) {
          if (count == 7 || (thorough && backend.is_thorough_with(type))) check_everything(self.group(), type, count);
        }
      }
    });
  }
}

}  // namespace

TEST_CASE("collectives over memory mapped by all ranks give the reference result", "[slow]") {
  check_backend(cpu_near());
}
TEST_CASE("collectives over staged memory give the reference result", "[slow]") {
  check_backend(cpu_staged());
}
TEST_CASE("collectives over gloo give the reference result", "[slow]") {
  check_backend(gloo_backend());
}
TEST_CASE("collectives over nccl with host memory give the reference result", "[slow]") {
  check_backend(nccl_backend(), gpu_rank_counts({1, 2, 3, 5, 8}));
}
TEST_CASE("collectives over nccl with GPU memory give the reference result", "[slow]") {
  for (const int size : gpu_rank_counts({1, 2, 3})) {
    RankThreads(nccl_backend().make, size).all_succeed([&](RankThreads::Rank& self) {
      const DeviceMemory device = gpu_memory(self.group());
      for (const DataType type : kDataTypes) {
        for (const std::size_t count : kCounts) {
          const bool thorough = size <= 2 && nccl_backend().is_thorough_with(type);
          if (thorough || count == 7) check_everything(self.group(), type, count, &device);
        }
      }
    });
  }
}

TEST_CASE("collectives of slightly more than a mebibyte give the reference result", "[slow]") {
  for (const BackendUnderTest& backend : backends_under_test()) {
    for (const int size : {2, 3}) {
      INFO(backend.name << ", " << size << " ranks");
      RankThreads(backend.make, size).all_succeed([&](RankThreads::Rank& self) {
        for (const DataType type : {DataType::f32, DataType::bf16}) {
          Check check(self.group(), type, (std::size_t{1} << 20) / size_of(type) + 5);
          check_all_reduce(check, ReduceOp::sum);
          check_reduce(check, ReduceOp::max);
          check_reduce_scatter(check, ReduceOp::product);
          check_broadcast(check);
          check_all_gather(check);
          check_gather_and_scatter(check);
          check_all_to_all(check);
          check_send_and_recv(check);
        }
      });
    }
  }
}

TEST_CASE("collectives larger than a staging buffer give the reference result with many ranks", "[slow]") {
  for (const BackendUnderTest& backend : {cpu_near(), cpu_staged()}) {
    for (const int size : {5, 8}) {
      INFO(backend.name << ", " << size << " ranks");
      RankThreads(backend.make, size).all_succeed([&](RankThreads::Rank& self) {
        Check check(self.group(), DataType::f16, 37'501);
        check_all_reduce(check, ReduceOp::average);
        check_reduce(check, ReduceOp::min);
        check_reduce_scatter(check, ReduceOp::premultiplied_sum);
        check_all_gather(check);
        check_gather_and_scatter(check);
        check_all_to_all(check);
      });
    }
  }
}

TEST_CASE("all_reduce works on both sides of the sizes where its algorithm changes", "[slow]") {
  for (const BackendUnderTest& backend : backends_under_test()) {
    INFO(backend.name);
    for (const int size : {2, 3}) {
      RankThreads(backend.make, size).all_succeed([](RankThreads::Rank& self) {
        Check floats(self.group(), DataType::f32, std::size_t{1} << 20);
        check_all_reduce(floats, ReduceOp::sum);
        Check fewer(self.group(), DataType::f32, 100'001);
        check_all_reduce(fewer, ReduceOp::average);
        Check bytes(self.group(), DataType::u8, (std::size_t{4} << 20) + 3);
        check_all_reduce(bytes, ReduceOp::product);
      });
    }
  }
}

TEST_CASE("collectives between nodes give the reference result", "[slow]") {
  // The layouts are two ranks on each of two nodes, three and one, and one on each of three nodes.
  const std::vector<std::string> layouts = {"aabb", "abab", "aaab", "abc"};
  for (const std::string& layout : layouts) {
    INFO(layout);
    RankThreads(cpu_between_nodes().make, static_cast<int>(layout.size()))
        .on([&](int rank) { return std::string(1, layout[static_cast<std::size_t>(rank)]); })
        .all_succeed([](RankThreads::Rank& self) {
          for (const DataType type : {DataType::f32, DataType::f16, DataType::i64, DataType::boolean}) {
            for (const std::size_t count : {1, 7, 1021}) check_everything(self.group(), type, count);
          }
          Check large(self.group(), DataType::f32, 300'001);
          check_all_reduce(large, ReduceOp::sum);
          check_all_reduce(large, ReduceOp::premultiplied_sum);
        });
  }
}

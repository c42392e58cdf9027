#include "runtime/backend/nccl/nccl_lane.h"

#include <ddp/error.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <latch>
#include <span>
#include <thread>

#include "runtime/limits.h"
#include "support/catch.h"
#include "support/gpu_ranks.h"
#include "support/placed_memory.h"

using namespace std::chrono_literals;
using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

namespace {

// Returns libraries that count how often they are asked whether an event is done.
Libraries libraries_that_count(std::atomic<int>& queries) {
  const Libraries libraries = gpu_libraries();
  replace(libraries->cuda.query_event, [&queries, real = libraries->cuda.query_event](CudaEventHandle event) {
    ++queries;
    return real(event);
  });
  return libraries;
}

}  // namespace

TEST_CASE("waiting for an operation on a stream does not block the host") {
  // Rank 1 calls nothing until rank 0 has called, and waited for, all its own operations.
  constexpr int kOperations = 10;
  std::latch rank_0_has_waited(1);
  std::atomic<int> right = 0;
  ranks_over(gpu_libraries(), 2).all_succeed([&](RankThreads::Rank& self) {
    const GpuFloats values(self.group(), {1.0f + static_cast<float>(self.rank())});
    ProgramStream stream(self.group());
    // The first operation of a kind connects the ranks, and is waited for.
    self.group().all_reduce(values.memory, ReduceOp::average).wait();
    if (self.rank() == 1) rank_0_has_waited.wait();
    for (int i = 0; i < kOperations; ++i) {
      self.group()
          .all_reduce(values.memory, ReduceOp::average, {.stream = Stream::from_handle(stream.handle())})
          .wait();
    }
    if (self.rank() == 0) rank_0_has_waited.count_down();
    // A copy that is put on the stream now runs after the operations.
    float result = 0;
    values.cuda.copy_async(&result, values.memory.buffer().data, sizeof result, stream.handle());
    CudaEvents(values.cuda).finish(stream.handle(), kPatience);
    if (result == 1.5f) ++right;
  });
  CHECK(right == 2);
}

TEST_CASE("minima and maxima of floating-point values stay on the stream and keep a NaN") {
  // Rank 1 calls nothing until rank 0 has called all its operations, so rank 0 must not wait for any of them.
  constexpr std::array kTypes = {DataType::f16, DataType::bf16, DataType::f32, DataType::f64};
  std::latch rank_0_has_called(1);
  ranks_over(gpu_libraries(), 2).all_succeed([&](RankThreads::Rank& self) {
    PlacedMemory memory(self.group(), DeviceType::cuda);
    std::vector<Memory> all;
    for (std::size_t i = 0; i < 4 * kTypes.size(); ++i) {
      all.push_back(self.group().allocate(3, kTypes[i % kTypes.size()], DeviceType::cuda));
    }
    const auto reduce = [&](std::size_t first) {
      for (std::size_t i = first; i < first + 2 * kTypes.size(); ++i) {
        const ReduceOp op = i / kTypes.size() % 2 == 0 ? ReduceOp::min : ReduceOp::max;
        self.group().all_reduce(all[i], op, {.stream = memory.stream()}).wait();
      }
    };
    for (const Memory& each : all) {
      memory.set(each, [&](std::size_t k) { return k == 0 && self.rank() == 0 ? std::nan("") : self.rank() - 0.5; });
    }
    reduce(0);  // the first operation of a kind connects the ranks, and is waited for
    if (self.rank() == 1) rank_0_has_called.wait();
    reduce(2 * kTypes.size());
    if (self.rank() == 0) rank_0_has_called.count_down();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::vector<double> result = memory.numbers(all[i]);
      const double expected = i / kTypes.size() % 2 == 0 ? -0.5 : 0.5;
      require(std::isnan(result[0]) && result[1] == expected && result[2] == expected,
              std::string(to_string(all[i].buffer().type)) + " " + std::to_string(result[0]) + " " +
                  std::to_string(result[1]));
    }
  });
}

TEST_CASE("an operation begins after the earlier work of its stream") {
  std::atomic<int> right = 0;
  ranks_over(gpu_libraries(), 2).all_succeed([&](RankThreads::Rank& self) {
    const std::vector<float> written(1 << 20, 1.0f);
    const GpuFloats values(self.group(), std::vector<float>(written.size()));
    ProgramStream stream(self.group());
    values.cuda.copy_async(values.memory.buffer().data, written.data(), written.size() * sizeof(float),
                           stream.handle());
    Work work = self.group().all_reduce(values.memory, ReduceOp::sum, {.stream = Stream::from_handle(stream.handle())});
    require(work.wait_for(kPatience), "it is not done");
    if (values.get() == std::vector<float>(written.size(), 2.0f)) ++right;
  });
  CHECK(right == 2);
}

TEST_CASE("host memory with a stream is read after the earlier work of the stream") {
  std::atomic<int> right = 0;
  ranks_over(gpu_libraries(), 2).all_succeed([&](RankThreads::Rank& self) {
    const std::vector<float> written(1 << 18, 3.0f);
    // A copy to pageable memory would not return before it is done.
    const Memory memory = self.group().allocate_pinned(written.size(), DataType::f32);
    const std::span<float> values(static_cast<float*>(memory.data()), written.size());
    const CudaApi cuda = gpu_libraries()->cuda;
    ProgramStream stream(self.group());
    cuda.copy_async(values.data(), written.data(), values.size_bytes(), stream.handle());
    self.group().all_reduce(memory, ReduceOp::sum, {.stream = Stream::from_handle(stream.handle())}).wait();
    if (std::ranges::all_of(values, [](float value) { return value == 6.0f; })) ++right;
  });
  CHECK(right == 2);
}

TEST_CASE("reductions that NCCL lacks read their input after the earlier work of the stream") {
  std::atomic<int> right = 0;
  ranks_over(gpu_libraries(), 2).all_succeed([&](RankThreads::Rank& self) {
    const std::vector<std::int16_t> written(1 << 18, 5);
    const Memory values = self.group().allocate(written.size(), DataType::i16, DeviceType::cuda);
    const CudaApi cuda = gpu_libraries()->cuda;
    ProgramStream stream(self.group());
    cuda.copy_async(values.buffer().data, written.data(), values.buffer().bytes(), stream.handle());
    self.group().all_reduce(values, ReduceOp::sum, {.stream = Stream::from_handle(stream.handle())}).wait();
    std::vector<std::int16_t> sums(written.size());
    self.group().copy(sums, values);
    if (sums == std::vector<std::int16_t>(written.size(), 10)) ++right;
  });
  CHECK(right == 2);
}

TEST_CASE("a failure of an operation that only a stream waits for breaks the group") {
  const auto ended = ranks_over(gpu_libraries(), 2, 2s).outcomes([](RankThreads::Rank& self) {
    const GpuFloats values(self.group(), {1});
    ProgramStream stream(self.group());
    self.group().all_reduce(values.memory).wait();
    if (self.rank() == 1) return self.waits_for(1);
    Work work = self.group().all_reduce(values.memory, ReduceOp::sum, {.stream = Stream::from_handle(stream.handle())});
    work.wait();  // this returns immediately
    while (!work.done()) std::this_thread::sleep_for(1ms);
    self.group().barrier().wait();
  });
  CHECK(ended[0].kind == ErrorKind::aborted);
  CHECK_THAT(ended[0].message, Catch::Contains("did not take part within 2.0 s"));
}

TEST_CASE("operations of a batch form one NCCL group") {
  const Libraries libraries = gpu_libraries();
  std::atomic<int> groups = 0;  // of both ranks
  replace(libraries->nccl.group_start, [&, real = libraries->nccl.group_start] {
    ++groups;
    return real();
  });
  ranks_over(libraries, 2).all_succeed([&](RankThreads::Rank& self) {
    const GpuFloats a(self.group(), {1});
    const GpuFloats b(self.group(), {2});
    const GpuFloats c(self.group(), {3});
    // NCCL connects the ranks for the first group of a kind.
    for (int turn = 0; turn < 2; ++turn) {
      a.set({1});
      b.set({2});
      c.set({3});
      std::vector<Work> works;
      {
        const CollectiveBatch batch = self.group().batch();
        works.push_back(self.group().all_reduce(a.memory));
        works.push_back(self.group().all_reduce(b.memory, ReduceOp::average));
        works.push_back(self.group().broadcast(c.memory, 1));
      }
      for (Work& work : works) work.wait();
      require(a.get()[0] == 2 && b.get()[0] == 2 && c.get()[0] == 3, "wrong values");
    }
  });
  CHECK(groups == 4);
}

TEST_CASE("more operations than can start at once are all completed in order") {
  ranks_over(gpu_libraries(), 2).all_succeed([&](RankThreads::Rank& self) {
    const GpuFloats values(self.group(), {1});
    std::vector<Work> works;
    for (int i = 0; i < 20; ++i) {
      for (int many = 0; many < 4; ++many) works.push_back(self.group().all_reduce(values.memory, ReduceOp::average));
      // One of the operations goes through the host.
      works.push_back(self.group().barrier());
    }
    std::vector<float> sum = {1};
    self.group().all_reduce(sum).wait();
    for (Work& work : works) require(work.wait_for(kPatience), "not done");
    require(sum[0] == 2, "wrong sum");
  });
}

TEST_CASE("small operations start far ahead of the GPU, and large ones less far") {
  constexpr int kSmall = 500;
  constexpr int kLarge = 60;
  const std::size_t floats = GENERATE(std::size_t{1}, std::size_t{4} << 20);
  const Libraries libraries = gpu_libraries();
  std::atomic<int> begun = 0;
  replace(libraries->nccl.all_reduce, [&begun, real = libraries->nccl.all_reduce](auto&&... arguments) {
    ++begun;
    return real(arguments...);
  });
  ranks_over(libraries, 1).all_succeed([&](RankThreads::Rank& self) {
    const GpuFloats values(self.group(), std::vector<float>(floats));
    ProgramStream stream(self.group());
    self.group().all_reduce(values.memory).wait();
    HeldStream held(stream.handle());
    begun = 0;
    std::vector<Work> works;
    for (int i = 0; i < (floats == 1 ? kSmall : kLarge); ++i) {
      works.push_back(
          self.group().all_reduce(values.memory, ReduceOp::sum, {.stream = Stream::from_handle(stream.handle())}));
    }
    // 33 operations of 16 MiB have more than 256 MiB together.
    require(begun == (floats == 1 ? kSmall : 33), std::to_string(begun) + " have begun");
    held.release();
    for (Work& work : works) require(work.wait_for(kPatience), "not done");
  });
}

TEST_CASE("a call that differs from that of a rank far ahead is found before it hangs") {
  std::latch rank_0_is_ahead(1);
  const auto ended = ranks_over(gpu_libraries(), 2).outcomes([&](RankThreads::Rank& self) {
    const GpuFloats values(self.group(), {1, 2});
    ProgramStream stream(self.group());
    self.group().all_reduce(values.memory).wait();
    if (self.rank() == 0) {
      for (int i = 0; i < 500; ++i) {
        self.group().all_reduce(values.memory, ReduceOp::sum, {.stream = Stream::from_handle(stream.handle())}).wait();
      }
      rank_0_is_ahead.count_down();
      return self.waits_for(1);
    }
    rank_0_is_ahead.wait();
    self.group().all_reduce(values.memory.buffer().slice(0, 1)).wait();
  });
  CHECK(ended[1].kind == ErrorKind::mismatch);
  CHECK_THAT(ended[1].message,
             Catch::Contains("the ranks call different collectives: rank 1 calls all_reduce sum #2") &&
                 Catch::Contains("rank 0 calls another one under this number, and is at #501 now"));
}

TEST_CASE("values are exchanged in both directions at once and on streams") {
  ranks_over(gpu_libraries(), 2).all_succeed([&](RankThreads::Rank& self) {
    const int other = 1 - self.rank();
    for (int turn = 0; turn < 3; ++turn) {
      const GpuFloats given(self.group(), std::vector<float>(100'000, static_cast<float>(self.rank() + turn)));
      const GpuFloats taken(self.group(), std::vector<float>(100'000));
      ProgramStream stream(self.group());
      Work sent = self.group().send(given.memory, other, {.stream = Stream::from_handle(stream.handle())});
      Work received = self.group().recv(taken.memory, other, {.stream = Stream::from_handle(stream.handle())});
      sent.wait();
      received.wait();
      CudaEvents(given.cuda).finish(stream.handle(), kPatience);
      require(taken.get() == std::vector<float>(100'000, static_cast<float>(other + turn)), "wrong values");
    }
  });
}

TEST_CASE("a host that has waited for long polls the operation rarely") {
  std::atomic<int> queries = 0;
  const Libraries libraries = libraries_that_count(queries);
  ranks_over(libraries, 1).all_succeed([&](RankThreads::Rank& self) {
    const GpuFloats values(self.group(), {1});
    ProgramStream stream(self.group());
    self.group().all_reduce(values.memory).wait();
    HeldStream held(stream.handle());
    Work held_up = self.group().all_reduce(values.memory, {}, {.stream = Stream::from_handle(stream.handle())});
    std::thread waits([&] { self.group().all_reduce(values.memory).wait(); });
    std::this_thread::sleep_for(limits::kLongWait + 100ms);
    queries = 0;
    // On a busy computer, there are even fewer looks in this time.
    std::this_thread::sleep_for(200ms);
    const int seen = queries;
    held.release();
    waits.join();
    require(held_up.wait_for(kPatience), "it is not done");
    require(seen < 400, "it has looked " + std::to_string(seen) + " times");
  });
}

TEST_CASE("a host that need not wait for an operation polls it rarely") {
  std::atomic<int> queries = 0;
  const Libraries libraries = libraries_that_count(queries);
  ranks_over(libraries, 1).all_succeed([&](RankThreads::Rank& self) {
    const GpuFloats values(self.group(), {1});
    ProgramStream stream(self.group());
    self.group().all_reduce(values.memory).wait();
    HeldStream held(stream.handle());
    Work work = self.group().all_reduce(values.memory, ReduceOp::sum, {.stream = Stream::from_handle(stream.handle())});
    work.wait();
    queries = 0;
    // On a busy computer, there are even fewer looks in this time.
    std::this_thread::sleep_for(200ms);
    require(queries < 400, "it has looked " + std::to_string(queries) + " times");
    held.release();
    require(work.wait_for(kPatience), "it is not done");
  });
}

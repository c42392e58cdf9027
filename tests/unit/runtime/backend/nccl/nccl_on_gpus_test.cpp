// Tests what a real GPU does to a backend: graphs that a program captures, launches on several threads, ends that take
// long, and errors that stay.
#include <ddp/error.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <latch>
#include <optional>
#include <thread>
#include <utility>

#include "runtime/limits.h"
#include "support/catch.h"
#include "support/deadline.h"
#include "support/gpu_ranks.h"

using namespace std::chrono_literals;
using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

namespace {

// Captures what is put on a stream, as a program does that makes a CUDA graph.
class GraphCapture {
 public:
  template <typename Holder>
  GraphCapture(const Holder& stream, int mode) : stream_(stream.handle()) {
    require(gpu_function<int(void*, int)>("cuStreamBeginCapture_v2")(stream_, mode) == kCudaSuccess, "no capture");
  }
  // Returns whether the capture was not disturbed.
  bool end() {
    void* graph = nullptr;
    return gpu_function<int(void*, void**)>("cuStreamEndCapture")(stream_, &graph) == kCudaSuccess;
  }

 private:
  CudaStreamHandle stream_;
};

constexpr int kGlobalCapture = 0;

}  // namespace

TEST_CASE("a program may capture a graph while a collective is in flight") {
  ranks_over(gpu_libraries(), 2).all_succeed([](RankThreads::Rank& self) {
    const GpuFloats values(self.group(), {1});
    ProgramStream stream(self.group());
    ProgramStream captured(self.group());
    self.group().all_reduce(values.memory, ReduceOp::average).wait();
    std::optional<HeldStream> held(stream.handle());
    GraphCapture capture(captured, kGlobalCapture);
    Work work =
        self.group().all_reduce(values.memory, ReduceOp::average, {.stream = Stream::from_handle(stream.handle())});
    // The queue's thread asks for the operation's end all the time.
    require(!work.wait_for(20ms), "it cannot be done");
    const Memory more = self.group().allocate(1 << 20, DataType::f32, DeviceType::cuda);
    std::vector<float> copied(1 << 20, 1.0f);
    self.group().copy(copied, more);
    require(copied[0] == 0, "the copy is wrong");
    require(capture.end(), "the capture was disturbed");
    held->release();
    require(work.wait_for(kPatience), "it is not done");
  });
}

TEST_CASE("a collective on a stream that captures a CUDA graph is rejected, and the capture continues") {
  ranks_over(gpu_libraries(), 2).all_succeed([](RankThreads::Rank& self) {
    const GpuFloats values(self.group(), {1});
    ProgramStream captured(self.group());
    const CallOptions on_captured{.stream = Stream::from_handle(captured.handle())};
    self.group().all_reduce(values.memory, ReduceOp::average).wait();
    GraphCapture capture(captured, kGlobalCapture);
    const RankOutcome reduced = outcome_of([&] { self.group().all_reduce(values.memory, {}, on_captured).wait(); });
    require(reduced.kind == ErrorKind::invalid_argument, reduced.message);
    require(reduced.message.find("captures a CUDA graph") != std::string::npos, reduced.message);
    std::vector<float> host(1);
    const RankOutcome copied = outcome_of([&] { self.group().copy(host, values.memory, on_captured.stream); });
    require(copied.kind == ErrorKind::invalid_argument, copied.message);
    require(capture.end(), "the capture was disturbed");
    self.group().all_reduce(values.memory, ReduceOp::average, on_captured).wait();
  });
}

TEST_CASE("a per-thread default stream is rejected by every call") {
  ranks_over(gpu_libraries(), 1).all_succeed([](RankThreads::Rank& self) {
    const GpuFloats values(self.group(), {1});
    const Stream per_thread = Stream::from_handle(reinterpret_cast<void*>(std::uintptr_t{2}));
    std::vector<float> host(1);
    const std::vector<std::function<void()>> calls = {
        [&] { self.group().all_reduce(values.memory, ReduceOp::sum, {.stream = per_thread}).wait(); },
        [&] { self.group().copy(host, values.memory, per_thread); },
        [&] { self.group().zero(values.memory, per_thread); },
        [&] { self.group().core().backend().side_stream()->mark(per_thread.handle()); }};
    for (const auto& call : calls) {
      const RankOutcome outcome = outcome_of(call);
      require(outcome.kind == ErrorKind::invalid_argument, outcome.message);
      require(outcome.message.find("cudaStreamPerThread") != std::string::npos, outcome.message);
    }
  });
}

TEST_CASE("a copy waits for its stream without a limit and ends when the group is aborted") {
  ranks_over(gpu_libraries(), 1).all_succeed([](RankThreads::Rank& self) {
    const GpuFloats values(self.group(), {1});
    ProgramStream stream(self.group());
    HeldStream held(stream.handle());
    std::thread control([&] { self.group().abort(); });
    std::vector<float> host(1);
    const RankOutcome outcome =
        outcome_of([&] { self.group().copy(host, values.memory, Stream::from_handle(stream.handle())); });
    control.join();
    require(outcome.kind == ErrorKind::aborted, outcome.message);
  });
}

TEST_CASE("a copy that an abort ends reports the failure that caused the abort") {
  const Libraries libraries = gpu_libraries();
  std::atomic<bool> fails = false;
  replace(libraries->nccl.get_async_error,
          [&, real = libraries->nccl.get_async_error](NcclComm comm, NcclResult& state) {
            return fails ? NcclResult::system_error : real(comm, state);
          });
  ranks_over(libraries, 1).all_succeed([&](RankThreads::Rank& self) {
    const GpuFloats values(self.group(), {1});
    ProgramStream stream(self.group());
    const Stream on = Stream::from_handle(stream.handle());
    self.group().all_reduce(values.memory, ReduceOp::sum, {.stream = on}).wait();
    HeldStream held(stream.handle());
    Work work = self.group().all_reduce(values.memory, ReduceOp::sum, {.stream = on});
    fails = true;
    std::vector<float> host(1);
    const RankOutcome outcome = outcome_of([&] { self.group().copy(host, values.memory, on); });
    require(outcome.kind == ErrorKind::aborted, outcome.message);
    require(outcome.message.find("because an operation failed: ") != std::string::npos, outcome.message);
    require(outcome.message.find("NCCL: unhandled system error") != std::string::npos, outcome.message);
  });
}

TEST_CASE("a copy after a collective fails if the collective ends because of a lost rank") {
  // The stream is empty as soon as NCCL has aborted the collective.
  for (int round = 0; round < 20; ++round) {
    const auto ended = ranks_over(gpu_libraries(), 2).outcomes([](RankThreads::Rank& self) {
      const GpuFloats values(self.group(), {1});
      ProgramStream stream(self.group());
      self.group().all_reduce(values.memory, ReduceOp::sum, {.stream = stream.stream()}).wait();
      if (self.rank() == 1) return self.group().abort();
      self.group().all_reduce(values.memory, ReduceOp::sum, {.stream = stream.stream()}).wait();
      std::vector<float> host(1);
      self.group().copy(host, values.memory, stream.stream());
    });
    CHECK((ended[0].kind == ErrorKind::aborted || ended[0].kind == ErrorKind::peer_lost));
  }
}

TEST_CASE("two threads do not launch collectives of two process groups on one GPU at the same time") {
  const Libraries libraries = gpu_libraries();
  // A launch lasts from the call until the communicator's state is success again.
  std::atomic<int> launching = 0;
  std::atomic<int> most = 0;
  thread_local bool is_launching = false;
  std::atomic<bool> watches = false;
  replace(libraries->nccl.all_reduce, [&, real = libraries->nccl.all_reduce](auto... arguments) {
    if (watches) {
      is_launching = true;
      most = std::max<int>(most, ++launching);
    }
    return real(arguments...);
  });
  replace(libraries->nccl.get_async_error,
          [&, real = libraries->nccl.get_async_error](NcclComm comm, NcclResult& state) {
            const NcclResult result = real(comm, state);
            if (state == NcclResult::success && std::exchange(is_launching, false)) --launching;
            return result;
          });
  ranks_over(libraries, 1).all_succeed([&](RankThreads::Rank& self) {
    const GpuFloats values(self.group(), {1});
    auto other = self.group().split(0);
    self.group().all_reduce(values.memory).wait();
    other->all_reduce(values.memory).wait();
    watches = true;
    const auto many = [&](const ProcessGroup& group) {
      for (int i = 0; i < 200; ++i) group.all_reduce(values.memory).wait();
    };
    std::thread second([&] { many(*other); });
    many(self.group());
    second.join();
  });
  CHECK(most == 1);
}

TEST_CASE("GPU memory is returned at once while a collective connects the ranks") {
  std::latch freed(1);
  ranks_over(gpu_libraries(), 2).all_succeed([&](RankThreads::Rank& self) {
    std::optional<GpuFloats> values(std::in_place, self.group(), std::vector<float>(1 << 20));
    const Memory sent = self.group().allocate(1, DataType::f32, DeviceType::cuda);
    // Rank 1 takes part only when rank 0 has given its memory back.
    if (self.rank() == 1) freed.wait();
    Work work = self.group().all_reduce(sent);
    if (self.rank() == 0) {
      require(!work.wait_for(20ms), "rank 1 has not called it");
      values.reset();
      freed.count_down();
    }
    work.wait();
  });
}

TEST_CASE("communicators that cannot be closed share one time limit") {
  const Libraries libraries = gpu_libraries();
  libraries->closing_limit = 300ms;
  auto may_end = std::make_shared<std::promise<void>>();
  const std::shared_future<void> ending = may_end->get_future().share();
  std::chrono::steady_clock::duration took{};
  ranks_over(libraries, 4).all_succeed([&](RankThreads::Rank& self) {
    const GpuFloats values(self.group(), {1});
    const GpuFloats taken(self.group(), {0});
    for (int other = 0; other < 4; ++other) {
      if (other == self.rank()) continue;
      Work sent = self.group().send(values.memory, other);
      self.group().recv(taken.memory, other).wait();
      sent.wait();
    }
    self.group().barrier().wait();
    if (self.rank() != 0) return;
    replace(libraries->nccl.destroy, [ending](NcclComm) {
      ending.wait();
      return NcclResult::success;
    });
    const auto begun = std::chrono::steady_clock::now();
    self.leaves();
    took = std::chrono::steady_clock::now() - begun;
  });
  may_end->set_value();
  CHECK(took < 7 * libraries->closing_limit / 2);
}

TEST_CASE("a persistent error of the GPU ends the group with CUDA's error name") {
  if (on_real_gpu()) return;
  const auto break_gpu = gpu_function<void(int, int)>("fake_gpu_break");
  const auto ended = ranks_over(gpu_libraries(), 1).outcomes([&](RankThreads::Rank& self) {
    const GpuFloats values(self.group(), {1});
    self.group().all_reduce(values.memory).wait();
    break_gpu(0, 700);
    self.group().all_reduce(values.memory).wait();
  });
  break_gpu(0, 0);
  CHECK(ended[0].kind == ErrorKind::internal);
  CHECK_THAT(ended[0].message, Catch::Contains("CUDA_ERROR_ILLEGAL_ADDRESS") || Catch::Contains("NCCL:"));
}

TEST_CASE("memory of a group may be returned while a stream still reads it") {
  ranks_over(gpu_libraries(), 2).all_succeed([](RankThreads::Rank& self) {
    std::optional<GpuFloats> values(std::in_place, self.group(), std::vector<float>(1 << 20, 1));
    const GpuFloats kept(self.group(), std::vector<float>(1 << 20));
    const CudaApi cuda = values->cuda;
    ProgramStream stream(self.group());
    const CallOptions on_stream{.stream = Stream::from_handle(stream.handle())};
    self.group().all_reduce(values->memory, ReduceOp::sum, on_stream).wait();
    HeldStream held(stream.handle());
    // A kernel of the program, and a collective, are on the stream when the memory is given back.
    cuda.copy_async(kept.memory.data(), values->memory.data(), 4 << 20, stream.handle());
    Work work = self.group().all_reduce(values->memory, ReduceOp::sum, on_stream);
    work.wait();
    values.reset();
    held.release();
    require(work.wait_for(kPatience), "the collective is not done");
    std::vector<float> result(1 << 20);
    self.group().copy(result, kept.memory, on_stream.stream);
    require(result[7] == 2, "the copy is wrong");
  });
}

TEST_CASE("a program may destroy a stream that the group has forgotten") {
  ranks_over(gpu_libraries(), 2).all_succeed([](RankThreads::Rank& self) {
    const GpuFloats values(self.group(), {1, 2, 3});
    for (int round = 0; round < 3; ++round) {
      CudaStream stream(values.cuda);
      const Stream on = Stream::from_handle(stream.handle());
      self.group().all_reduce(values.memory, ReduceOp::average, {.stream = on}).wait();
      // The kernels have memory of their own for each stream.
      GpuMath* math = self.group().core().backend().gpu_math();
      const ConstBuffer all = values.memory.buffer();
      require(math->are_finite({&all, 1}, on), "the values are finite");
      GraphCapture capture(stream, kGlobalCapture);
      const RankOutcome refused = outcome_of([&] { self.group().forget(on); });
      require(refused.kind == ErrorKind::invalid_argument, refused.message);
      require(capture.end(), "the capture was disturbed");
      self.group().forget(on);
      self.group().forget(on);  // it is unknown now
    }
    self.group().finalize();
    self.group().forget(nullptr);
  });
}

TEST_CASE("page-locked memory is returned at once while the GPU waits for a rank") {
  std::latch freed(1);
  ranks_over(gpu_libraries(), 2).all_succeed([&](RankThreads::Rank& self) {
    const GpuFloats values(self.group(), {1});
    ProgramStream stream(self.group());
    const CallOptions on_stream{.stream = Stream::from_handle(stream.handle())};
    self.group().all_reduce(values.memory).wait();
    std::optional<Memory> pinned(self.group().allocate_pinned(1000, DataType::f32));
    // The collective is on the GPU of rank 0, and waits for rank 1.
    if (self.rank() == 1) freed.wait();
    Work work = self.group().all_reduce(values.memory, ReduceOp::sum, on_stream);
    pinned.reset();
    if (self.rank() == 0) freed.count_down();
    require(work.wait_for(kPatience), "it is not done");
  });
}

TEST_CASE("a late rank receives data that another rank sent before it left") {
  ranks_over(gpu_libraries(), 2).all_succeed([](RankThreads::Rank& self) {
    const GpuFloats sent(self.group(), {self.rank() == 0 ? 3.0F : 0.0F});
    const GpuFloats broadcast(self.group(), {self.rank() == 0 ? 4.0F : 0.0F});
    const auto transfer = [&](const CallOptions& options = {}) {
      return self.rank() == 0 ? self.group().send(sent.memory, 1) : self.group().recv(sent.memory, 0, options);
    };
    transfer().wait();
    self.group().broadcast(broadcast.memory, 0).wait();
    if (self.rank() == 0) {
      transfer().wait();
      self.group().broadcast(broadcast.memory, 0).wait();
      return self.leaves();
    }
    sent.set({0});
    broadcast.set({0});
    ProgramStream stream(self.group());
    const CallOptions on_stream{.stream = stream.stream()};
    std::optional<HeldStream> held(stream.handle());
    Work received = transfer(on_stream);
    Work taken = self.group().broadcast(broadcast.memory, 0, on_stream);
    const bool ended = received.wait_for(2 * limits::kLeftPeerGrace) || taken.wait_for(0ms);
    require(!ended, "the stream is held");
    held.reset();
    require(received.wait_for(kPatience) && taken.wait_for(kPatience), "they are not done");
    require(sent.get()[0] == 3 && broadcast.get()[0] == 4, "the values are wrong");
  });
}

TEST_CASE("streams of the simulated GPU share its hardware queues", "[alone]") {
  if (on_real_gpu()) return;
  const CudaApi cuda = gpu_libraries()->cuda;
  cuda.set_device(7);  // it has no queues yet
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "2", 1);
  CudaStream first(cuda);
  CudaStream second(cuda);
  CudaStream third(cuda);
  std::optional<HeldStream> held(first.handle());
  CudaEvents events(cuda);
  const CudaEventHandle in_second = events.record(second.handle());
  const CudaEventHandle in_third = events.record(third.handle());
  CHECK(eventually([&] { return cuda.query_event(in_second) == kCudaSuccess; }));
  CHECK(cuda.query_event(in_third) == kCudaNotReady);
  held->release();
  CHECK(eventually([&] { return cuda.query_event(in_third) == kCudaSuccess; }));
  events.put_back(in_second);
  events.put_back(in_third);
}

TEST_CASE("all pairs of ranks exchange messages at once if the driver has queues for all streams") {
  constexpr int kRanks = 6;
  ranks_over(gpu_libraries(), kRanks).all_succeed([](RankThreads::Rank& self) {
    std::vector<GpuFloats> taken;
    std::vector<Work> works;
    const GpuFloats own(self.group(), {static_cast<float>(self.rank())});
    for (int other = 0; other < kRanks; ++other) taken.emplace_back(self.group(), std::vector<float>{-1});
    for (int other = 0; other < kRanks; ++other) {
      if (other != self.rank())
        works.push_back(self.group().recv(taken[static_cast<std::size_t>(other)].memory, other));
    }
    self.group().barrier().wait();
    for (int other = kRanks - 1; other >= 0; --other) {
      if (other != self.rank()) works.push_back(self.group().send(own.memory, other));
    }
    for (Work& work : works) require(work.wait_for(kPatience), "a message did not arrive");
    for (int other = 0; other < kRanks; ++other) {
      if (other == self.rank()) continue;
      require(taken[static_cast<std::size_t>(other)].get()[0] == static_cast<float>(other), "a wrong message");
    }
  });
}

#include "runtime/backend/nccl/nccl_backend.h"

#include <ddp/error.h>

#include <catch2/catch.hpp>

#include <latch>

#include "support/backends_under_test.h"
#include "support/calls.h"
#include "support/deadline.h"
#include "support/expect_error.h"
#include "support/rank_threads.h"

using namespace std::chrono_literals;
using namespace ddp;
using namespace ddp::test;

namespace {

using Libraries = std::shared_ptr<NcclBackend::Libraries>;

std::unique_ptr<NcclBackend> alone(const Libraries& libraries, int local_rank = 0) {
  return std::make_unique<NcclBackend>(BackendOptions{0, 1, local_rank, kPatience}, make_memory_store(10s), libraries);
}

Call with_timeout(Call call, std::chrono::milliseconds timeout = kPatience) {
  call.timeout = timeout;
  return call;
}

// All ranks over the same libraries, which the test has changed.
RankThreads ranks_over(const Libraries& libraries, int size, std::chrono::milliseconds timeout = kPatience) {
  return {[libraries](const BackendOptions& options, const std::shared_ptr<Store>& store) -> std::unique_ptr<Backend> {
            return std::make_unique<NcclBackend>(options, store, libraries);
          },
          size, timeout};
}

// Numbers in GPU memory.
struct GpuFloats {
  CudaApi cuda = gpu_libraries()->cuda;
  Memory memory;

  GpuFloats(ProcessGroup& group, const std::vector<float>& values)
      : memory(group.allocate(values.size(), DataType::f32, DeviceType::cuda)) {
    set(values);
  }
  void set(const std::vector<float>& values) const {
    copy_now(cuda, memory.buffer().data, values.data(), values.size() * sizeof(float));
  }
  std::vector<float> get() const {
    std::vector<float> values(memory.buffer().count);
    copy_now(cuda, values.data(), memory.buffer().data, values.size() * sizeof(float));
    return values;
  }
};

}  // namespace

TEST_CASE("an id of another length than nccl's is a mismatch of the programs") {
  const auto store = make_memory_store(10s);
  store->set("nccl/id", "short");
  expect_error(ErrorKind::mismatch, {"5 bytes", "different programs"}, [&] {
    NcclBackend({1, 2, 0, 10s}, store, gpu_libraries());
  });
}

TEST_CASE("a remote error of nccl is a lost peer and the communicator is aborted and not destroyed") {
  const Libraries libraries = gpu_libraries();
  std::atomic<bool> broken = false;
  std::atomic<int> aborts = 0;
  std::atomic<int> ends = 0;
  libraries->nccl.async_error = [&, real = libraries->nccl.async_error](NcclComm comm) {
    return broken ? NcclResult::remote_error : real(comm);
  };
  libraries->nccl.abort = [&, real = libraries->nccl.abort](NcclComm comm) {
    const NcclResult result = real(comm);
    ++aborts;
    return result;
  };
  libraries->nccl.finalize = [&](NcclComm) {
    ++ends;
    return NcclResult::success;
  };
  std::vector<float> values(4, 1.0f);
  {
    const auto backend = alone(libraries);
    broken = true;
    expect_error(ErrorKind::peer_lost, {"that rank has ended", "NCCL:"},
                 [&] { backend->run(with_timeout(all_reduce(values))); });
    expect_error(ErrorKind::aborted, {"earlier failure"}, [&] { backend->run(with_timeout(barrier())); });
  }
  CHECK(aborts == 1);
  CHECK(ends == 0);
}

TEST_CASE("a first collective that fails or hangs says what to try") {
  const Libraries libraries = gpu_libraries();
  libraries->nccl.all_reduce = [](auto...) { return NcclResult::system_error; };
  ranks_over(libraries, 2)
      .all_fail(ErrorKind::internal, {"cannot begin", "unhandled system error", "NCCL_DEBUG=INFO"},
                [](RankThreads::Rank& self) { self.group().barrier().wait(); });
  // Rank 1 does not come; that is its own timeout of an idle group.
  const auto ended = ranks_over(gpu_libraries(), 2, 300ms).outcomes([](RankThreads::Rank& self) {
    if (self.rank() == 0) return self.group().barrier().wait();
    self.waits_for(1);
  });
  CHECK(ended[0].kind == ErrorKind::timeout);
  CHECK_THAT(ended[0].message, Catch::Contains("0.3 s") && Catch::Contains("No collective of this group has worked"));
}

TEST_CASE("a later failure says nothing of what to try with the first collective") {
  const auto ended = ranks_over(gpu_libraries(), 2, 300ms).outcomes([](RankThreads::Rank& self) {
    self.group().barrier().wait();
    if (self.rank() == 0) return self.group().barrier().wait();
    self.waits_for(1);
  });
  CHECK(ended[0].kind == ErrorKind::timeout);
  CHECK_THAT(ended[0].message, !Catch::Contains("has worked"));
}

TEST_CASE("gpus that add wrongly fail the trial") {
  const Libraries libraries = gpu_libraries();
  libraries->nccl.all_reduce = [real = libraries->nccl.broadcast](const void* send, void* receive, std::size_t count,
                                                                  NcclType type, NcclOp, NcclComm comm,
                                                                  CudaStreamHandle stream) {
    return real(send, receive, count, type, 0, comm, stream);
  };
  std::atomic<int> told = 0;
  ranks_over(libraries, 2).outcomes([&](RankThreads::Rank&) {});
  const auto store = make_memory_store(10s);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      NcclBackend backend({rank, 2, 0, 10s}, store, libraries);
      try {
        backend.try_out(10s);
      } catch (const Error& error) {
        if (std::string(error.what()).find("add 2 ones up to 1") != std::string::npos) ++told;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(told == 2);
}

TEST_CASE("a gpu without room for staging is an error that says how much was wanted") {
  const Libraries libraries = gpu_libraries();
  const auto backend = alone(libraries);
  libraries->cuda.allocate = [](void*&, std::size_t) { return 2; };
  std::vector<float> values(4);
  expect_error(ErrorKind::internal, {"512 bytes", "CUDA_ERROR_OUT_OF_MEMORY"},
               [&] { backend->run(with_timeout(all_reduce(values))); });
}

TEST_CASE("memory that is not this rank's gpu's is refused before nccl sees it") {
  const auto backend = alone(gpu_libraries(), 1);
  const auto elsewhere = alone(gpu_libraries(), 0);
  std::vector<float> values(4);
  expect_error(ErrorKind::invalid_argument, {"f32[4]", "is said to be in GPU memory, which it is not"}, [&] {
    backend->run(with_timeout(all_reduce({values.data(), 4, DataType::f32, DeviceType::cuda})));
  });
  const auto memory = elsewhere->allocate_on_gpu(16);
  expect_error(ErrorKind::invalid_argument, {"in the memory of GPU 0; this rank uses GPU 1"}, [&] {
    alone(gpu_libraries(), 1)->run(with_timeout(all_reduce({memory.get(), 4, DataType::f32, DeviceType::cuda})));
  });
}

TEST_CASE("waiting for an operation on a stream does not hold the host up") {
  // Rank 1 calls nothing until rank 0 has called, and waited for, all of its own.
  constexpr int kOperations = 10;
  std::latch rank_0_has_waited(1);
  std::atomic<int> right = 0;
  ranks_over(gpu_libraries(), 2).all_succeed([&](RankThreads::Rank& self) {
    const GpuFloats values(self.group(), {1.0f + static_cast<float>(self.rank())});
    CudaStream stream(values.cuda);
    self.group().barrier().wait();
    if (self.rank() == 1) rank_0_has_waited.wait();
    for (int i = 0; i < kOperations; ++i) {
      self.group().all_reduce(values.memory, ReduceOp::max, {.stream = stream.handle()}).wait();
    }
    if (self.rank() == 0) rank_0_has_waited.count_down();
    // What is put on the stream now comes after the operations.
    float result = 0;
    values.cuda.copy_async(&result, values.memory.buffer().data, sizeof result, stream.handle());
    CudaEvents(values.cuda).finish(stream.handle());
    if (result == 2.0f) ++right;
  });
  CHECK(right == 2);
}

TEST_CASE("an operation begins after what its stream holds") {
  std::atomic<int> right = 0;
  ranks_over(gpu_libraries(), 2).all_succeed([&](RankThreads::Rank& self) {
    const std::vector<float> written(1 << 20, 1.0f);
    const GpuFloats values(self.group(), std::vector<float>(written.size()));
    CudaStream stream(values.cuda);
    values.cuda.copy_async(values.memory.buffer().data, written.data(), written.size() * sizeof(float),
                           stream.handle());
    Work work = self.group().all_reduce(values.memory, ReduceOp::sum, {.stream = stream.handle()});
    CHECK(work.wait_for(kPatience));
    if (values.get() == std::vector<float>(written.size(), 2.0f)) ++right;
  });
  CHECK(right == 2);
}

TEST_CASE("host memory with a stream is read after what the stream holds") {
  std::atomic<int> right = 0;
  ranks_over(gpu_libraries(), 2).all_succeed([&](RankThreads::Rank& self) {
    std::vector<float> values(1 << 18);
    const std::vector<float> written(values.size(), 3.0f);
    const CudaApi cuda = gpu_libraries()->cuda;
    CudaStream stream(cuda);
    cuda.copy_async(values.data(), written.data(), values.size() * sizeof(float), stream.handle());
    self.group().all_reduce(values, ReduceOp::sum, {.stream = stream.handle()}).wait();
    if (values == std::vector<float>(values.size(), 6.0f)) ++right;
  });
  CHECK(right == 2);
}

TEST_CASE("a failure of an operation that only a stream waits for breaks the group") {
  const auto ended = ranks_over(gpu_libraries(), 2, 300ms).outcomes([](RankThreads::Rank& self) {
    const GpuFloats values(self.group(), {1});
    CudaStream stream(values.cuda);
    if (self.rank() == 1) return self.waits_for(1);
    Work work = self.group().all_reduce(values.memory, ReduceOp::sum, {.stream = stream.handle()});
    work.wait();  // returns at once
    while (!work.done()) std::this_thread::sleep_for(1ms);
    self.group().barrier().wait();
  });
  CHECK(ended[0].kind == ErrorKind::aborted);
  CHECK_THAT(ended[0].message, Catch::Contains("did not take part within 0.3 s"));
}

TEST_CASE("operations between group_start and group_end are one group of nccl") {
  const Libraries libraries = gpu_libraries();
  std::atomic<int> groups = 0;
  libraries->nccl.group_start = [&, real = libraries->nccl.group_start] {
    ++groups;
    return real();
  };
  ranks_over(libraries, 2).all_succeed([&](RankThreads::Rank& self) {
    const GpuFloats a(self.group(), {1});
    const GpuFloats b(self.group(), {2});
    const GpuFloats c(self.group(), {3});
    self.group().group_start();
    Work first = self.group().all_reduce(a.memory);
    Work second = self.group().all_reduce(b.memory, ReduceOp::max);
    Work third = self.group().broadcast(c.memory, 1);
    self.group().group_end();
    first.wait();
    second.wait();
    third.wait();
    require(a.get()[0] == 2 && b.get()[0] == 2 && c.get()[0] == 3, "wrong values");
  });
  CHECK(groups == 2);
}

TEST_CASE("more operations than can begin at once are all done in order") {
  ranks_over(gpu_libraries(), 2).all_succeed([&](RankThreads::Rank& self) {
    const GpuFloats values(self.group(), {1});
    std::vector<Work> works;
    for (int i = 0; i < 20; ++i) {
      for (int many = 0; many < 4; ++many) works.push_back(self.group().all_reduce(values.memory, ReduceOp::max));
      // One that goes through the host, among them.
      works.push_back(self.group().barrier());
    }
    std::vector<float> sum = {1};
    self.group().all_reduce(sum).wait();
    for (Work& work : works) require(work.wait_for(kPatience), "not done");
    require(sum[0] == 2, "wrong sum");
  });
}

TEST_CASE("what ranks call on nccl is compared before it hangs") {
  const auto ended = ranks_over(gpu_libraries(), 2).outcomes([](RankThreads::Rank& self) {
    const GpuFloats values(self.group(), {1, 2});
    Buffer buffer = values.memory;
    if (self.rank() == 1) buffer.count = 1;
    self.group().all_reduce(buffer).wait();
  });
  CHECK((ended[0].kind == ErrorKind::mismatch || ended[1].kind == ErrorKind::mismatch));
  CHECK(ended[0].kind);
  CHECK(ended[1].kind);
}

TEST_CASE("an abort from another thread ends an operation that waits for a rank") {
  const auto ended = ranks_over(gpu_libraries(), 2).outcomes([](RankThreads::Rank& self) {
    const GpuFloats values(self.group(), {1});
    if (self.rank() == 1) return self.waits_for(1);
    std::thread control([&] {
      std::this_thread::sleep_for(30ms);
      self.group().abort();
    });
    const RankOutcome outcome = outcome_of([&] { self.group().all_reduce(values.memory).wait(); });
    control.join();
    require(outcome.kind == ErrorKind::aborted, outcome.message);
  });
  CHECK_FALSE(ended[0].kind);
}

TEST_CASE("groups are split by nccl and ranks may stay out") {
  const Libraries libraries = gpu_libraries();
  std::atomic<int> ids = 0;
  libraries->nccl.get_unique_id = [&, real = libraries->nccl.get_unique_id](NcclUniqueId& id) {
    ++ids;
    return real(id);
  };
  ranks_over(libraries, 4).all_succeed([&](RankThreads::Rank& self) {
    // Rank 3 stays out; the others in the reverse order.
    auto part = self.group().split(self.rank() == 3 ? -1 : 0, -self.rank());
    require(part.has_value() == (self.rank() != 3), "who is in is wrong");
    if (!part) return;
    require(part->rank() == 2 - self.rank() && part->size() == 3, "rank or size is wrong");
    std::vector<std::int32_t> all(3);
    const std::int32_t own[] = {self.rank()};
    part->all_gather(all, own).wait();
    require(all == std::vector<std::int32_t>{2, 1, 0}, "the order is wrong");
  });
  CHECK(ids == 1);
}

TEST_CASE("groups are made anew where this nccl cannot split") {
  const Libraries libraries = gpu_libraries();
  libraries->nccl.split = nullptr;
  ranks_over(libraries, 2).all_succeed([&](RankThreads::Rank& self) {
    auto part = self.group().split(self.rank());
    std::vector<float> one = {1};
    part->all_reduce(one).wait();
    require(one[0] == 1, "wrong sum");
  });
}

TEST_CASE("gpu memory of a group is zero registered and may outlive the group") {
  const Libraries libraries = gpu_libraries();
  std::atomic<int> registered = 0;
  std::atomic<int> released = 0;
  libraries->nccl.register_buffer = [&, real = libraries->nccl.register_buffer](NcclComm comm, void* memory,
                                                                                std::size_t bytes, void*& handle) {
    ++registered;
    return real(comm, memory, bytes, handle);
  };
  libraries->nccl.deregister_buffer = [&, real = libraries->nccl.deregister_buffer](NcclComm comm, void* handle) {
    --registered;
    return real(comm, handle);
  };
  libraries->nccl.release = [&, real = libraries->nccl.release](void* memory) {
    ++released;
    return real(memory);
  };
  Memory kept;
  ranks_over(libraries, 1).all_succeed([&](RankThreads::Rank& self) {
    {
      const GpuFloats values(self.group(), {7});
      const Registration again = self.group().register_buffer(values.memory);
      require(again.active() && registered == 2, "not registered");
    }
    require(registered == 0 && released == 1, "not given back");
    kept = self.group().allocate(3, DataType::f32, DeviceType::cuda);
  });
  std::vector<float> values(3, 1.0f);
  copy_now(libraries->cuda, values.data(), kept.buffer().data, sizeof(float) * 3);
  CHECK(values == std::vector<float>(3, 0.0f));
  kept = {};
  CHECK(released == 2);
}

TEST_CASE("an old nccl without memory of its own uses cuda's") {
  const Libraries libraries = gpu_libraries();
  libraries->nccl.allocate = nullptr;
  libraries->nccl.register_buffer = nullptr;
  const auto backend = alone(libraries);
  const auto memory = backend->allocate_on_gpu(16);
  backend->run(with_timeout(all_reduce({memory.get(), 4, DataType::f32, DeviceType::cuda})));
}

TEST_CASE("gpu memory of another backend is refused") {
  RankThreads(cpu_backend(NearMemory::Way::direct).make, 1)
      .all_fail(ErrorKind::unavailable, {"cpu", "nccl"},
                [](auto& self) { self.group().allocate(1, DataType::f32, DeviceType::cuda); });
}

TEST_CASE("values go both ways between two ranks at once and on streams") {
  ranks_over(gpu_libraries(), 2).all_succeed([&](RankThreads::Rank& self) {
    const int other = 1 - self.rank();
    for (int turn = 0; turn < 3; ++turn) {
      const GpuFloats given(self.group(), std::vector<float>(100'000, static_cast<float>(self.rank() + turn)));
      const GpuFloats taken(self.group(), std::vector<float>(100'000));
      CudaStream stream(given.cuda);
      Work sent = self.group().send(given.memory, other, {.stream = stream.handle()});
      Work received = self.group().recv(taken.memory, other, {.stream = stream.handle()});
      sent.wait();
      received.wait();
      CudaEvents(given.cuda).finish(stream.handle());
      require(taken.get() == std::vector<float>(100'000, static_cast<float>(other + turn)), "wrong values");
    }
  });
}

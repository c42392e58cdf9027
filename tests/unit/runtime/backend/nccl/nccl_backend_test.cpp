#include "runtime/backend/nccl/nccl_backend.h"

#include <ddp/error.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <latch>
#include <thread>

#include "support/backends_under_test.h"
#include "support/calls.h"
#include "support/catch.h"
#include "support/deadline.h"
#include "support/expect_error.h"
#include "support/gpu_ranks.h"
#include "support/placed_memory.h"

using namespace std::chrono_literals;
using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

namespace {

std::unique_ptr<NcclBackend> alone(const Libraries& libraries, int local_rank = 0) {
  return std::make_unique<NcclBackend>(BackendOptions{0, 1, local_rank, kPatience}, make_memory_store(10s), libraries);
}

Call with_timeout(Call call, std::chrono::milliseconds timeout = kPatience) {
  call.timeout = timeout;
  return call;
}

}  // namespace

TEST_CASE("an NCCL id of a different length is a mismatch of the programs") {
  const auto store = make_memory_store(10s);
  store->set("nccl/id", "short");
  expect_error(ErrorKind::mismatch, {"5 bytes", "different programs"}, [&] {
    NcclBackend({1, 2, 0, 10s}, store, gpu_libraries());
  });
}

TEST_CASE("a remote error of NCCL is a lost peer, and the communicator is aborted instead of destroyed") {
  const Libraries libraries = gpu_libraries();
  std::atomic<bool> broken = false;
  std::atomic<int> aborts = 0;
  std::atomic<int> ends = 0;
  replace(libraries->nccl.get_async_error,
          [&, real = libraries->nccl.get_async_error](NcclComm comm, NcclResult& state) {
            return broken ? NcclResult::remote_error : real(comm, state);
          });
  replace(libraries->nccl.abort, [&, real = libraries->nccl.abort](NcclComm comm) {
    const NcclResult result = real(comm);
    ++aborts;
    return result;
  });
  replace(libraries->nccl.finalize, [&](NcclComm) {
    ++ends;
    return NcclResult::success;
  });
  std::vector<float> values(4, 1.0f);
  {
    const auto backend = alone(libraries);
    broken = true;
    expect_error(ErrorKind::peer_lost, {"that rank has exited", "NCCL:"},
                 [&] { backend->run(with_timeout(all_reduce(values))); });
    expect_error(ErrorKind::aborted, {"earlier failure"}, [&] { backend->run(with_timeout(barrier())); });
  }
  CHECK(aborts == 1);
  CHECK(ends == 0);
}

TEST_CASE("a first collective that fails or hangs suggests remedies") {
  const Libraries libraries = gpu_libraries();
  replace(libraries->nccl.all_reduce, [](auto...) { return NcclResult::system_error; });
  const auto failed = ranks_over(libraries, 2).outcomes([](RankThreads::Rank& self) { self.group().barrier().wait(); });
  int errors = 0;
  for (const RankOutcome& outcome : failed) {
    REQUIRE(outcome.kind);
    // A rank that comes late gets an error about the other one's failure.
    if (outcome.kind == ErrorKind::peer_lost) continue;
    ++errors;
    CHECK(outcome.kind == ErrorKind::internal);
    CHECK_THAT(outcome.message, Catch::Contains("cannot start") && Catch::Contains("unhandled system error") &&
                                    Catch::Contains("NCCL_DEBUG=INFO"));
  }
  CHECK(errors > 0);
  // Rank 1 does not come. An idle group has its own message for this time-out.
  const auto ended = ranks_over(gpu_libraries(), 2).outcomes([](RankThreads::Rank& self) {
    if (self.rank() == 0) return self.group().barrier({.timeout = 300ms, .name = {}}).wait();
    self.waits_for(1);
  });
  CHECK(ended[0].kind == ErrorKind::timeout);
  CHECK_THAT(ended[0].message,
             Catch::Contains("0.3 s") && Catch::Contains("No collective of this group has succeeded"));
}

TEST_CASE("a later failure does not suggest remedies for the first collective") {
  const auto ended = ranks_over(gpu_libraries(), 2).outcomes([](RankThreads::Rank& self) {
    self.group().barrier().wait();
    if (self.rank() == 0) return self.group().barrier({.timeout = 300ms, .name = {}}).wait();
    self.waits_for(1);
  });
  CHECK(ended[0].kind == ErrorKind::timeout);
  CHECK_THAT(ended[0].message, !Catch::Contains("has worked"));
}

TEST_CASE("GPUs that add incorrectly fail the trial collective") {
  const Libraries libraries = gpu_libraries();
  replace(libraries->nccl.all_reduce,
          [real = libraries->nccl.broadcast](const void* send, void* receive, std::size_t count, NcclType type, NcclOp,
                                             NcclComm comm, CudaStreamHandle stream) {
            return real(send, receive, count, type, 0, comm, stream);
          });
  std::atomic<int> errors = 0;
  ranks_over(libraries, 2).outcomes([&](RankThreads::Rank&) {});
  const auto store = make_memory_store(10s);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      NcclBackend backend({rank, 2, rank, 10s}, store, libraries);
      try {
        backend.try_out(10s);
      } catch (const Error& error) {
        if (std::string(error.what()).find("as the sum of 2 ones") != std::string::npos) ++errors;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(errors == 2);
}

TEST_CASE("kernels are loaded before the first collective, while the GPU is idle") {
  const Libraries libraries = gpu_libraries();
  std::vector<std::string> calls;
  replace(libraries->cuda.load_module,
          [&, real = libraries->cuda.load_module](CudaModuleHandle& module, const char* text) {
            calls.emplace_back("load");
            return real(module, text);
          });
  replace(libraries->nccl.all_reduce, [&, real = libraries->nccl.all_reduce](auto&&... arguments) {
    calls.emplace_back("all_reduce");
    return real(arguments...);
  });
  const auto backend = alone(libraries);
  backend->try_out(kPatience);
  CHECK(backend->gpu_math() != nullptr);
  CHECK(calls == std::vector<std::string>{"load", "all_reduce"});
}

TEST_CASE("an operation that may need another NCCL algorithm does not count as connected") {
  const auto backend = alone(gpu_libraries());
  const auto memory = backend->allocate_on_gpu(64);
  std::uint64_t sequence = 0;
  const auto begins = [&](ReduceOp op, DataType type, std::size_t count) {
    Call call = with_timeout(all_reduce({memory.get(), count, type, DeviceType::cuda}, op));
    call.sequence = ++sequence;
    const Call* calls[] = {&call};
    const bool begun = backend->begin(calls);
    backend->run(call);
    return begun;
  };
  CHECK_FALSE(begins(ReduceOp::sum, DataType::f32, 4));
  CHECK(begins(ReduceOp::sum, DataType::f32, 5));
  CHECK_FALSE(begins(ReduceOp::average, DataType::f32, 4));
  CHECK_FALSE(begins(ReduceOp::sum, DataType::f16, 8));
  CHECK_FALSE(begins(ReduceOp::sum, DataType::f32, 8));
  CHECK(begins(ReduceOp::average, DataType::f32, 4));
}

TEST_CASE("a GPU without room for staging is an error with the requested amount") {
  const Libraries libraries = gpu_libraries();
  const auto backend = alone(libraries);
  libraries->nccl.allocate = {};
  replace(libraries->cuda.allocate, [](void*&, std::size_t) { return 2; });
  std::vector<float> values(100'000);
  expect_error(ErrorKind::unavailable,
               {"out of GPU memory: 782 KiB were requested on GPU 0 by rank 0", "CUDA_ERROR_OUT_OF_MEMORY"},
               [&] { backend->run(with_timeout(all_reduce(values))); });
}

TEST_CASE("memory of another GPU or of the host is rejected before NCCL gets it") {
  const auto backend = alone(gpu_libraries(), 1);
  const auto elsewhere = alone(gpu_libraries(), 0);
  std::vector<float> values(4);
  expect_error(ErrorKind::invalid_argument, {"f32[4]", "is declared to be in GPU memory, but it is not"}, [&] {
    backend->check(with_timeout(all_reduce({values.data(), 4, DataType::f32, DeviceType::cuda})));
  });
  const auto memory = elsewhere->allocate_on_gpu(16);
  expect_error(ErrorKind::invalid_argument, {"in the memory of GPU 0; this rank uses GPU 1"}, [&] {
    backend->check(with_timeout(all_reduce({memory.get(), 4, DataType::f32, DeviceType::cuda})));
  });
}

TEST_CASE("calls of ranks on nccl are compared before they can hang") {
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

TEST_CASE("groups are split with NCCL, and ranks may stay out") {
  const Libraries libraries = gpu_libraries();
  std::atomic<int> ids = 0;
  replace(libraries->nccl.get_unique_id, [&, real = libraries->nccl.get_unique_id](NcclUniqueId& id) {
    ++ids;
    return real(id);
  });
  ranks_over(libraries, 4).all_succeed([&](RankThreads::Rank& self) {
    // Rank 3 is in no part, and the others are in reverse order.
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

TEST_CASE("groups are created anew if NCCL cannot split") {
  const Libraries libraries = gpu_libraries();
  libraries->nccl.split = {};
  ranks_over(libraries, 2).all_succeed([&](RankThreads::Rank& self) {
    auto part = self.group().split(self.rank());
    std::vector<float> one = {1};
    part->all_reduce(one).wait();
    require(one[0] == 1, "wrong sum");
  });
}

TEST_CASE("memory is registered with NCCL only on request") {
  const Libraries libraries = gpu_libraries();
  int registered = 0;
  replace(libraries->nccl.register_buffer, [&registered](auto&&...) {
    ++registered;
    return NcclResult::success;
  });
  const auto backend = alone(libraries);
  backend->try_out(kPatience);
  const auto memory = backend->allocate_on_gpu(1 << 20);
  CHECK(backend->register_buffer({memory.get(), 1 << 18, DataType::f32, DeviceType::cuda}) == nullptr);
  CHECK(registered == 0);
}

TEST_CASE("GPU memory of a group is zeroed, registered on request, and may outlive the group") {
  ::setenv("DDP_GPU_REGISTER", "1", 1);
  constexpr std::size_t kLarge = 100'000;  // elements of an allocation of its own
  const Libraries libraries = gpu_libraries();
  std::atomic<int> registered = 0;
  std::atomic<int> released = 0;
  replace(libraries->nccl.register_buffer,
          [&, real = libraries->nccl.register_buffer](NcclComm comm, void* memory, std::size_t bytes, void*& handle) {
            ++registered;
            return real(comm, memory, bytes, handle);
          });
  replace(libraries->nccl.deregister_buffer,
          [&, real = libraries->nccl.deregister_buffer](NcclComm comm, void* handle) {
            --registered;
            return real(comm, handle);
          });
  replace(libraries->nccl.release, [&, real = libraries->nccl.release](void* memory) {
    ++released;
    return real(memory);
  });
  Memory kept;
  const auto make = [&](const BackendOptions& options, const std::shared_ptr<Store>& store) {
    auto backend = std::make_unique<NcclBackend>(options, store, libraries);
    backend->try_out(kPatience);
    return std::unique_ptr<Backend>(std::move(backend));
  };
  RankThreads(make, 1).all_succeed([&](RankThreads::Rank& self) {
    // The trial has used registered memory.
    require(eventually([&] { return registered == 0 && released == 1; }), "the trial has kept its memory");
    released = 0;
    {
      const GpuFloats values(self.group(), std::vector<float>(kLarge, 7));
      const Registration again = self.group().register_buffer(values.memory);
      require(again.active() && registered == 2, "not registered");
    }
    require(eventually([&] { return registered == 0 && released == 1; }), "not given back");
    kept = self.group().allocate(kLarge, DataType::f32, DeviceType::cuda);
  });
  ::unsetenv("DDP_GPU_REGISTER");
  std::vector<float> values(kLarge, 1.0f);
  copy_now(libraries->cuda, values.data(), kept.buffer().data, sizeof(float) * kLarge);
  CHECK(values == std::vector<float>(kLarge, 0.0f));
  kept = {};
  // The last memory takes the slab of small blocks with it.
  CHECK(eventually([&] { return released == 3; }));
}

TEST_CASE("an old NCCL without an allocator uses CUDA's memory") {
  const Libraries libraries = gpu_libraries();
  libraries->nccl.allocate = {};
  libraries->nccl.register_buffer = {};
  const auto backend = alone(libraries);
  const auto memory = backend->allocate_on_gpu(16);
  backend->run(with_timeout(all_reduce({memory.get(), 4, DataType::f32, DeviceType::cuda})));
}

TEST_CASE("GPU memory of another backend is rejected") {
  RankThreads(cpu_near().make, 1).all_fail(ErrorKind::unavailable, {"cpu", "nccl"}, [](auto& self) {
    self.group().allocate(1, DataType::f32, DeviceType::cuda);
  });
}

TEST_CASE("a NaN on a GPU makes the minimum and the maximum NaN") {
  for (const int size : gpu_rank_counts({2, 3})) {
    RankThreads(nccl_backend().make, size).all_succeed([](RankThreads::Rank& self) {
      const float own = self.rank() == 0 ? std::nanf("") : static_cast<float>(self.rank());
      for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
        const Memory values = self.group().allocate(2, DataType::f32, DeviceType::cuda);
        const std::vector<float> given = {own, static_cast<float>(self.rank())};
        self.group().copy(values, given);
        self.group().all_reduce(values, op).wait();
        std::vector<float> result(2);
        self.group().copy(result, values);
        const auto last = static_cast<float>(self.group().size() - 1);
        require(std::isnan(result[0]), "the NaN of rank 0 is lost");
        require(result[1] == (op.kind == ReduceOp::min ? 0 : last), "numbers");
      }
    });
  }
}

TEST_CASE("a rank without kernels computes minima and maxima on the host together with the others") {
  const Libraries libraries = gpu_libraries();
  const Libraries without = gpu_libraries();
  replace(without->cuda.load_module, [](CudaModuleHandle&, const char*) { return 218; });
  const auto make = [&](const BackendOptions& options, const std::shared_ptr<Store>& store) {
    return std::unique_ptr<Backend>(
        std::make_unique<NcclBackend>(options, store, options.rank == 1 ? without : libraries));
  };
  RankThreads(make, 2).all_succeed([](RankThreads::Rank& self) {
    for (const DataType type : {DataType::f16, DataType::bf16, DataType::f32, DataType::f64}) {
      PlacedMemory memory(self.group(), DeviceType::cuda);
      const Memory values = self.group().allocate(3, type, DeviceType::cuda);
      for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
        memory.set(values,
                   [&](std::size_t k) { return k == 0 && self.rank() == 1 ? std::nan("") : self.rank() - 0.5; });
        self.group().all_reduce(values, op, {.stream = memory.stream()}).wait();
        const std::vector<double> result = memory.numbers(values);
        require(std::isnan(result[0]) && result[1] == (op.kind == ReduceOp::min ? -0.5 : 0.5), "wrong values");
      }
      std::vector<float> on_host = {static_cast<float>(self.rank())};
      self.group().all_reduce(on_host, ReduceOp::max).wait();
      require(on_host[0] == 1, "wrong value in host memory");
    }
  });
}

TEST_CASE("memory that NCCL cannot allocate comes from CUDA") {
  const Libraries libraries = gpu_libraries();
  std::atomic<int> released = 0;
  replace(libraries->nccl.allocate, [](void*&, std::size_t) { return NcclResult::unhandled_cuda_error; });
  replace(libraries->cuda.release, [&, release = libraries->cuda.release](void* memory) {
    ++released;
    return release(memory);
  });
  const auto backend = alone(libraries);
  {
    const auto memory = backend->allocate_on_gpu(1 << 20);
    REQUIRE(memory);
    int device = kNoCudaDevice;
    libraries->cuda.device_of(memory.get(), device);
    CHECK(device == 0);
  }
  CHECK(eventually([&] { return released == 1; }));
}

#include "runtime/backend/nccl/nccl_backend.h"

#include <ddp/error.h>

#include <catch2/catch.hpp>

#include <thread>

#include "support/calls.h"
#include "support/fake_nccl.h"

using namespace std::chrono_literals;
using ddp::Buffer;
using ddp::CudaApi;
using ddp::DataType;
using ddp::DeviceType;
using ddp::ErrorKind;
using ddp::NcclBackend;
using ddp::NcclResult;
using ddp::ReduceOp;
using ddp::test::all_gather;
using ddp::test::all_reduce;
using ddp::test::barrier;
using ddp::test::broadcast;
using ddp::test::FakeNccl;

namespace {

struct Failure {
  ErrorKind kind;
  std::string text;
};

template <typename Function>
Failure failure_of(Function&& function) {
  try {
    function();
  } catch (const ddp::Error& error) {
    return {error.kind(), error.what()};
  }
  FAIL("nothing was thrown");
  return {};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::unique_ptr<NcclBackend> make_backend(const FakeNccl& fake, std::chrono::milliseconds timeout = 10s,
                                          std::chrono::milliseconds closing_limit = 10s) {
  return std::make_unique<NcclBackend>(ddp::BackendOptions{0, 1, 0, timeout}, *ddp::make_memory_store(10s), fake.nccl(),
                                       fake.cuda(), closing_limit);
}

// Every rank on a thread of its own, with a backend over one fake.
template <typename Function>
void on_ranks(const FakeNccl& fake, int size, Function function) {
  const auto store = ddp::make_memory_store(10s);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      NcclBackend backend({rank, size, 0, 10s}, *store, fake.nccl(rank), fake.cuda(rank));
      function(rank, backend);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

TEST_CASE("a rank that does not come while nccl connects is a timeout that names the waiting rank") {
  FakeNccl fake;
  fake.rank().init_polls = FakeNccl::kForEver;
  const Failure failure = failure_of([&] { make_backend(fake, 5ms); });
  CHECK(failure.kind == ErrorKind::timeout);
  CHECK(contains(failure.text, "rank 0 of 1 cannot make the NCCL communicator"));
  CHECK(contains(failure.text, "5 ms"));
  CHECK(fake.rank().aborts == 1);
  CHECK(fake.rank().destroys == 0);
  CHECK(fake.rank().streams_destroyed == 1);
}

TEST_CASE("an id of another length than nccl's is a mismatch of the programs") {
  FakeNccl fake(2);
  const auto store = ddp::make_memory_store(10s);
  store->set("nccl/id", "short");
  const Failure failure = failure_of([&] { NcclBackend({1, 2, 0, 10s}, *store, fake.nccl(1), fake.cuda(1)); });
  CHECK(failure.kind == ErrorKind::mismatch);
  CHECK(contains(failure.text, "5 bytes"));
}

TEST_CASE("a remote error of nccl is a lost peer and the communicator is aborted and not destroyed") {
  FakeNccl fake;
  fake.rank().stream_polls = FakeNccl::kForEver;
  fake.rank().enqueue_polls = 3;
  fake.rank().operation_error = NcclResult::remote_error;
  auto backend = make_backend(fake);
  std::vector<float> values(4, 1.0f);
  const Failure failure = failure_of([&] { backend->run(all_reduce(values, ReduceOp::sum)); });
  CHECK(failure.kind == ErrorKind::peer_lost);
  CHECK(contains(failure.text, "that rank has ended"));
  CHECK(contains(failure.text, "socket closed"));
  CHECK(fake.rank().aborts == 1);
  backend.reset();
  CHECK(fake.rank().aborts == 1);
  CHECK(fake.rank().finalizes == 0);
  CHECK(fake.rank().destroys == 0);
  CHECK(fake.rank().streams_destroyed == 1);
}

TEST_CASE("any other asynchronous error of nccl is internal and carries its words") {
  FakeNccl fake;
  fake.rank().operation_error = NcclResult::system_error;
  auto backend = make_backend(fake);
  const Failure failure = failure_of([&] { backend->run(barrier()); });
  CHECK(failure.kind == ErrorKind::internal);
  CHECK(contains(failure.text, "result 2"));
  CHECK(fake.rank().aborts == 1);
}

TEST_CASE("a collective that never ends on the gpu is a timeout and is aborted") {
  FakeNccl fake;
  fake.rank().stream_polls = FakeNccl::kForEver;
  auto backend = make_backend(fake, 5ms);
  std::vector<float> values(4, 1.0f);
  const Failure failure = failure_of([&] { backend->run(all_reduce(values, ReduceOp::sum)); });
  CHECK(failure.kind == ErrorKind::timeout);
  CHECK(contains(failure.text, "5 ms"));
  CHECK(fake.rank().copies_to_host == 0);
  CHECK(fake.rank().aborts == 1);
  CHECK(fake.rank().destroys == 0);
}

TEST_CASE("a collective that nccl never enqueues is a timeout although the stream is empty") {
  FakeNccl fake;
  fake.rank().enqueue_polls = FakeNccl::kForEver;
  auto backend = make_backend(fake, 5ms);
  CHECK(failure_of([&] { backend->run(barrier()); }).kind == ErrorKind::timeout);
}

TEST_CASE("an abort that hangs does not hold up the error and what it may still use is left alone") {
  FakeNccl fake;
  fake.rank().stream_polls = FakeNccl::kForEver;
  fake.rank().abort_hangs = true;
  auto backend = make_backend(fake, 5ms, 5ms);
  CHECK(failure_of([&] { backend->run(barrier()); }).kind == ErrorKind::timeout);
  backend.reset();
  CHECK(fake.rank().streams_destroyed == 0);
  fake.let_aborts_end();
}

TEST_CASE("a backend that has failed refuses further operations") {
  FakeNccl fake;
  fake.rank().operation_error = NcclResult::remote_error;
  auto backend = make_backend(fake);
  failure_of([&] { backend->run(barrier()); });
  CHECK(failure_of([&] { backend->run(barrier()); }).kind == ErrorKind::aborted);
  CHECK(fake.rank().aborts == 1);
}

TEST_CASE("a gpu without room for staging is an error that says how much was wanted") {
  FakeNccl fake;
  fake.rank().out_of_memory = true;
  auto backend = make_backend(fake);
  std::vector<float> values(4);
  const Failure failure = failure_of([&] { backend->run(all_reduce(values, ReduceOp::sum)); });
  CHECK(failure.kind == ErrorKind::internal);
  CHECK(contains(failure.text, "16 bytes"));
  CHECK(contains(failure.text, "cudaErrorMemoryAllocation"));
  CHECK(fake.rank().aborts == 1);
}

TEST_CASE("a backend whose work is done finalizes and destroys its communicator and stream") {
  FakeNccl fake;
  fake.rank().init_polls = 3;
  fake.rank().finalize_polls = 3;
  make_backend(fake).reset();
  CHECK(fake.rank().finalizes == 1);
  CHECK(fake.rank().destroys == 1);
  CHECK(fake.rank().aborts == 0);
  CHECK(fake.rank().streams_destroyed == 1);
}

TEST_CASE("a collective that takes a while is waited for") {
  FakeNccl fake;
  fake.rank().enqueue_polls = 3;
  fake.rank().stream_polls = 7;
  auto backend = make_backend(fake);
  std::vector<float> values = {1, 2, 3};
  backend->run(all_reduce(values, ReduceOp::sum));
  CHECK(values == std::vector<float>{1, 2, 3});
}

TEST_CASE("host buffers go through device memory that is used again") {
  FakeNccl fake;
  auto backend = make_backend(fake);
  std::vector<float> values = {1, 2, 3, 4};
  std::vector<float> fewer = {5, 6};
  backend->run(all_reduce(values, ReduceOp::sum));
  backend->run(all_reduce(fewer, ReduceOp::sum));
  CHECK(fake.rank().copies_to_device == 2);
  CHECK(fake.rank().copies_to_host == 2);
  CHECK(fake.rank().foreign_pointers == 0);
  CHECK(fake.rank().allocations == 1);
  std::vector<float> more(100, 7.0f);
  backend->run(all_reduce(more, ReduceOp::sum));
  CHECK(fake.rank().allocations == 2);
}

TEST_CASE("device buffers are used where they lie") {
  FakeNccl fake;
  auto backend = make_backend(fake);
  float* values = fake.device_memory<float>({1, 2});
  float* gathered = fake.device_memory<float>({0, 0});
  backend->run(all_reduce({values, 2, DataType::f32, DeviceType::cuda}, ReduceOp::sum));
  backend->run(broadcast({values, 2, DataType::f32, DeviceType::cuda}, 0));
  backend->run(
      all_gather({gathered, 2, DataType::f32, DeviceType::cuda}, {values, 2, DataType::f32, DeviceType::cuda}));
  CHECK(gathered[1] == 2.0f);
  CHECK(fake.rank().copies_to_device + fake.rank().copies_to_host == 0);
  CHECK(fake.rank().allocations == 0);
  CHECK(fake.rank().foreign_pointers == 0);
}

TEST_CASE("two ranks sum and average their values") {
  FakeNccl fake(2);
  std::vector<float> sums[2];
  std::vector<float> averages[2];
  on_ranks(fake, 2, [&](int rank, NcclBackend& backend) {
    const float own = rank == 0 ? 1.0f : 3.0f;
    sums[rank].assign(1000, own);
    averages[rank].assign(10, own);
    backend.run(all_reduce(sums[rank], ReduceOp::sum));
    backend.run(all_reduce(averages[rank], ReduceOp::average));
    backend.run(barrier());
  });
  for (int rank = 0; rank < 2; ++rank) {
    CHECK(sums[rank] == std::vector<float>(1000, 4.0f));
    CHECK(averages[rank] == std::vector<float>(10, 2.0f));
    CHECK(fake.rank(rank).reductions == std::vector<ReduceOp>{ReduceOp::sum, ReduceOp::average, ReduceOp::max});
    CHECK(fake.rank(rank).foreign_pointers == 0);
    CHECK(fake.rank(rank).destroys == 1);
  }
}

TEST_CASE("a broadcast copies into the gpu on the root and out of it on the others") {
  FakeNccl fake(2);
  std::vector<std::int64_t> values[2] = {{0, 0}, {7, 8}};
  on_ranks(fake, 2, [&](int rank, NcclBackend& backend) { backend.run(broadcast(values[rank], 1)); });
  CHECK(values[0] == values[1]);
  CHECK(values[0] == std::vector<std::int64_t>{7, 8});
  CHECK(fake.rank(0).copies_to_device == 0);
  CHECK(fake.rank(0).copies_to_host == 1);
  CHECK(fake.rank(1).copies_to_device == 1);
  CHECK(fake.rank(1).copies_to_host == 0);
}

TEST_CASE("gathered values lie in the order of the ranks wherever input and output are") {
  FakeNccl fake(2);
  const DeviceType input_device = GENERATE(DeviceType::cpu, DeviceType::cuda);
  const DeviceType output_device = GENERATE(DeviceType::cpu, DeviceType::cuda);
  std::vector<double> results[2];
  on_ranks(fake, 2, [&](int rank, NcclBackend& backend) {
    std::vector<double> input = {1.0 + rank, 10.0 + rank};
    std::vector<double> output(4);
    double* device_input = fake.device_memory(input, rank);
    double* device_output = fake.device_memory(output, rank);
    const bool in_host = input_device == DeviceType::cpu;
    const bool out_host = output_device == DeviceType::cpu;
    backend.run(all_gather({out_host ? output.data() : device_output, 4, DataType::f64, output_device},
                           {in_host ? input.data() : device_input, 2, DataType::f64, input_device}));
    if (!out_host) output.assign(device_output, device_output + 4);
    results[rank] = output;
  });
  for (int rank = 0; rank < 2; ++rank) {
    CHECK(results[rank] == std::vector<double>{1, 10, 2, 11});
    CHECK(fake.rank(rank).foreign_pointers == 0);
  }
}

TEST_CASE("each rank works on the gpu of its local rank") {
  FakeNccl fake;
  fake.rank().device_count = 4;
  NcclBackend backend({0, 1, 2, 10s}, *ddp::make_memory_store(10s), fake.nccl(), fake.cuda());
  CHECK(fake.rank().current_device == 2);
  fake.rank().current_device = -1;
  backend.run(barrier());
  CHECK(fake.rank().current_device == 2);
}

TEST_CASE("what nccl cannot do is refused and breaks nothing") {
  const FakeNccl fake;
  auto backend = make_backend(fake);
  std::vector<float> values(4);
  std::vector<std::int16_t> shorts(4);
  CHECK(failure_of([&] { backend->run(ddp::test::call_of(ddp::Operation::scatter, values, values, 0)); }).kind ==
        ErrorKind::unavailable);
  CHECK(failure_of([&] { backend->run(all_reduce(shorts)); }).kind == ErrorKind::unavailable);
  CHECK(failure_of([&] { backend->run(all_reduce(values, ReduceOp::premultiplied(2))); }).kind ==
        ErrorKind::unavailable);
  backend->run(all_reduce(values));
}

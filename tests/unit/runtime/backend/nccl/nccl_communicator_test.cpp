#include "runtime/backend/nccl/nccl_communicator.h"

#include <ddp/error.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/deadline.h"
#include "support/expect_error.h"
#include "support/gpu_libraries.h"
#include "support/nccl_setup.h"
#include "support/node_groups.h"

using namespace std::chrono_literals;
using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

namespace {

// Simulates the store of a rank that has ended: a request returns only when the caller no longer needs it.
class LostStore : public Store {
 public:
  void set(const std::string&, std::string_view) override {}
  std::string get(const std::string&) override { return ""; }
  std::int64_t add(const std::string&, std::int64_t) override { return 0; }
  std::string compare_set(const std::string&, std::string_view, std::string_view) override { return ""; }
  bool check(std::span<const std::string>) override {
    std::this_thread::sleep_for(10s);
    return false;
  }
  bool delete_key(const std::string&) override { return false; }
};

}  // namespace

TEST_CASE("a store lost together with a rank that is no member does not block the members") {
  std::atomic<bool> aborted = false;
  const auto groups = meet_on_one_node(3);
  const auto member = std::make_shared<PeerWatch>(groups[0], Operation::recv, 1);
  const auto all = std::make_shared<PeerWatch>(groups[0]);
  groups[2]->say_failed();
  expect_error(ErrorKind::peer_lost, {"rank 2 has exited or failed"}, [&] {
    agree_on_id(gpu_libraries()->nccl, std::make_shared<LostStore>(), "id",
                NcclMembers{1, 2, 0, kPatience, kPatience, nullptr, &aborted, member, all});
  });
}

TEST_CASE("a single fixed address for all communicators is rejected on every rank") {
  const int rank = GENERATE(0, 1);
  std::atomic<bool> aborted = false;
  const NcclMembers members{rank, 2, 0, kPatience, kPatience, nullptr, &aborted, nullptr, nullptr};
  NcclApi nccl = gpu_libraries()->nccl;
  // NCCL may find the variable in its configuration file, which it reads at its first call.
  replace(nccl.get_unique_id, [](NcclUniqueId&) {
    ::setenv("NCCL_COMM_ID", "10.0.0.1:4000", 1);
    return NcclResult::success;
  });
  if (rank == 1) ::setenv("NCCL_COMM_ID", "10.0.0.1:4000", 1);
  expect_error(ErrorKind::unavailable, {"NCCL_COMM_ID=10.0.0.1:4000", "Unset the variable"},
               [&] { agree_on_id(nccl, make_memory_store(kPatience), "id", members); });
  ::unsetenv("NCCL_COMM_ID");
}

TEST_CASE("a communicator that NCCL refuses to create is not aborted") {
  NcclSetup setup;
  replace(setup.nccl.init_rank,
          [](NcclComm&, int, NcclUniqueId, int, NcclConfig&) { return NcclResult::unhandled_cuda_error; });
  expect_error(ErrorKind::internal, {"cannot create their NCCL communicator"}, [&] { setup.communicator(); });
  CHECK(setup.counts->aborts == 0);
}

TEST_CASE("a communicator that fails during its creation is aborted") {
  NcclSetup setup;
  replace(setup.nccl.get_async_error, [](NcclComm, NcclResult&) { return NcclResult::remote_error; });
  expect_error(ErrorKind::peer_lost, {"that rank has exited"}, [&] { setup.communicator(); });
  CHECK(eventually([&] { return setup.counts->aborts == 1; }));
}

TEST_CASE("a communicator throws ErrorKind::timeout if NCCL reports a timeout") {
  NcclSetup setup;
  replace(setup.nccl.get_async_error, [](NcclComm, NcclResult&) { return NcclResult::timeout; });
  expect_error(ErrorKind::timeout, {"NCCL:"}, [&] { setup.communicator(); });
}

TEST_CASE("a rank that is missing while NCCL connects gives a timeout") {
  NcclSetup setup;
  setup.nccl.blocking = false;
  replace(setup.nccl.init_rank,
          [real = setup.nccl.init_rank](NcclComm& comm, int size, NcclUniqueId id, int rank, NcclConfig& config) {
            const NcclResult result = real(comm, size, id, rank, config);
            // NCCL's thread sets the handle. Without it nothing can be aborted.
            while (std::atomic_ref<NcclComm>(comm).load() == nullptr) std::this_thread::yield();
            return result;
          });
  expect_error(ErrorKind::timeout, {"a rank did not arrive within 20 ms"}, [&] { setup.communicator(2, 20ms); });
  CHECK(eventually([&] { return setup.counts->aborts == 1; }));
}

TEST_CASE("the creation of a communicator is given up when the group is aborted") {
  NcclSetup setup;
  std::thread control([&] {
    std::this_thread::sleep_for(20ms);
    setup.aborted = true;
  });
  expect_error(ErrorKind::aborted, {"aborted"}, [&] { setup.communicator(2); });
  control.join();
}

// A handler that was registered earlier runs later, so this one runs after the destructors of all objects that are made
// from here on. CTest runs a case with the tag [alone] in a process of its own, and checks how that ends.
TEST_CASE("abandoned threads may use the GPU while the process exits", "[alone]") {
  REQUIRE(std::atexit([] {
            if (gpu_libraries()->cuda.set_device(0) != kCudaSuccess) std::_Exit(3);
          }) == 0);
  CHECK(gpu_libraries()->cuda.set_device(0) == kCudaSuccess);
}

// On an H100, a thread that freed memory crashed most programs at their end.
TEST_CASE("abandoned threads do not call NCCL while the process exits", "[alone]") {
  REQUIRE(std::atexit([] {
            if (!is_failure(gpu_libraries()->nccl.get_unique_id(*std::make_unique<NcclUniqueId>()))) std::_Exit(3);
          }) == 0);
  const NcclApi nccl = gpu_libraries()->nccl;
  NcclSetup::enter();
  void* memory = nullptr;
  REQUIRE(nccl.allocate(memory, 1) == NcclResult::success);
  CHECK(nccl.release(memory) == NcclResult::success);
  std::thread([nccl] {
    NcclSetup::enter();
    for (void* block = nullptr;;) {
      if (nccl.allocate(block, 1) == NcclResult::success) nccl.release(block);
    }
  }).detach();
}

TEST_CASE("a group of steps is ended although one of them fails") {
  NcclSetup setup;
  int ends = 0;
  replace(setup.nccl.group_end, [&, real = setup.nccl.group_end] {
    ++ends;
    return real();
  });
  replace(setup.nccl.broadcast, [](auto...) { return NcclResult::invalid_argument; });
  const auto communicator = setup.communicator();
  const NcclStep step{NcclFunction::broadcast};
  const NcclStep steps[] = {step, step};
  expect_error(ErrorKind::internal, {"cannot start"}, [&] { communicator->start(steps, nullptr, 1s); });
  CHECK(ends == 1);
}

// ReduceOp promises that a NaN stays, so the runtime reduces integers instead (reduces_in_order()).
TEST_CASE("NCCL's minimum and maximum of floating-point values ignore a NaN") {
  if (on_real_gpu()) return;  // each rank needs a GPU
  NcclSetup setup;
  const auto largest = [&](auto nan, auto number, NcclType type) {
    const CudaApi cuda = gpu_libraries()->cuda;
    std::array<decltype(nan), 2> results{nan, nan};
    std::vector<std::thread> ranks;
    setup.nccl.get_unique_id(setup.id);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      ranks.emplace_back([&, rank] {
        const int device = static_cast<int>(rank);
        const auto enter = [device] { gpu_libraries()->cuda.set_device(device); };
        enter();
        NcclCommunicator communicator(
            setup.nccl, {device, 2, device, kPatience, kPatience, enter, &setup.aborted, nullptr, nullptr}, setup.id);
        const CudaStream stream(cuda);
        void* memory = nullptr;
        cuda.allocate(memory, sizeof nan);
        copy_now(cuda, memory, rank == 0 ? &nan : &number, sizeof nan);
        const NcclStep step{NcclFunction::all_reduce, memory, memory, 1, type, NcclOp::max};
        communicator.start({&step, 1}, stream.handle(), kPatience);
        CudaEvents(cuda).finish(stream.handle(), kPatience);
        copy_now(cuda, &results[rank], memory, sizeof nan);
        communicator.close();
      });
    }
    for (std::thread& rank : ranks) rank.join();
    return static_cast<double>(results[0]);
  };
  CHECK(largest(std::nan(""), 2.0, NcclType::f64) == 2);
  CHECK(largest(std::nanf(""), 2.0F, NcclType::f32) == 2);
}

// Plays NCCL with kernels that run on several channels, after an attempt that hung.
#include <atomic>
#include <thread>

#include "support/nccl_worker.h"

using namespace ddp::launcher;
using namespace ddp::test;
namespace wire = ddp::wire;

namespace {

// Makes this process one of an attempt that follows a hang.
class AfterHang {
 public:
  AfterHang() { ::setenv("DDP_LAST_FAILURE", "the job hung: rank 1 has not called it  [DDP-H03 not called]", 1); }
  ~AfterHang() { ::unsetenv("DDP_LAST_FAILURE"); }
  AfterHang(const AfterHang&) = delete;
  AfterHang& operator=(const AfterHang&) = delete;
};

std::vector<std::uint64_t> gpu_of(std::uint64_t id) {
  const auto group = worker().group(id);
  REQUIRE(group);
  return {group->launches->kernels_from, group->gpu_started, group->gpu_finished};
}

using Numbers = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("kernels are traced only after a hang and from NCCL profiler version 4 on") {
  const int version = any_version();
  CAPTURE(version);
  for (const char* failure : {"", "rank 1 failed: exit code 3"}) {
    ::setenv("DDP_LAST_FAILURE", failure, 1);
    NcclPlayer player = played(version);
    auto comm = player.init(new_id(), kRanks, 1);
    CHECK((player.mask() & nccl::kernel_channel) == 0);
    player.finalize(comm);
  }
  const AfterHang after;
  NcclPlayer player = played(version);
  auto comm = player.init(new_id(), kRanks, 1);
  CHECK(((player.mask() & nccl::kernel_channel) != 0) == (version >= 4));
  // The mask is one for all communicators. One that is not shown does not change it.
  auto alone = player.init(new_id(), 1, 0);
  CHECK(((player.mask() & nccl::kernel_channel) != 0) == (version >= 4));
  player.finalize(alone);
  player.finalize(comm);
}

TEST_CASE("a kernel is done when it has ended on all its channels") {
  const AfterHang after;
  NcclPlayer player = played(GENERATE(4, 5, 6, 7));
  const std::uint64_t id = new_id();
  auto comm = player.init(id, kRanks, 1);
  player.channels = 2;
  player.collective(comm, "AllReduce", 8);
  CHECK(gpu_of(id) == Numbers{1, 1, 1});
  void* const second = player.collective(comm, "AllReduce", 8, "ncclFloat32", 0, false, /*runs=*/false);
  player.collective(comm, "AllReduce", 8, "ncclFloat32", 0, false, /*runs=*/false);
  CHECK(gpu_of(id) == Numbers{1, 1, 1});
  void* const channel = player.begin_kernel(comm, second);
  CHECK(gpu_of(id) == Numbers{1, 2, 1});
  player.end_kernel(channel);
  CHECK(gpu_of(id) == Numbers{1, 2, 1});
  player.end_kernel(player.begin_kernel(comm, second));
  CHECK(gpu_of(id) == Numbers{1, 2, 2});
  player.finalize(comm);
}

TEST_CASE("kernels of a destroyed communicator change nothing") {
  const AfterHang after;
  NcclPlayer player = played(6);
  auto old = player.init(new_id(), kRanks, 1);
  void* const kernel = player.begin_kernel(old, player.collective(old, "AllReduce", 8, "ncclFloat32", 0, false, false));
  player.finalize(old);
  // Others take its place.
  for (std::size_t i = 0; i < 2 * wire::kPageGroups; ++i) {
    const std::uint64_t id = new_id();
    auto comm = player.init(id, kRanks, 1);
    player.collective(comm, "AllReduce", 8, "ncclFloat32", 0, false, false);
    CHECK(gpu_of(id) == Numbers{1, 0, 0});
    player.functions().record(kernel, 22, nullptr);
    CHECK(gpu_of(id) == Numbers{1, 0, 0});
    player.finalize(comm);
  }
}

TEST_CASE("the profiler plug-in ignores calls with unknown event handles") {
  const AfterHang after;
  NcclPlayer player = played(GENERATE(4, 5, 6, 7));
  const std::uint64_t id = new_id();
  auto comm = player.init(id, kRanks, 1);
  player.collective(comm, "AllReduce", 8);
  for (const std::uint64_t value : {std::uint64_t{1}, std::uint64_t{0x10}, ~std::uint64_t{0}, std::uint64_t{1} << 52,
                                    std::uint64_t{0x7fff00001234}}) {
    void* const handle = reinterpret_cast<void*>(value);
    player.end_kernel(player.begin_kernel(comm, handle));
    player.functions().record(handle, 22, nullptr);
    player.functions().stop(handle);
  }
  CHECK(gpu_of(id) == Numbers{1, 1, 1});
  player.finalize(comm);
}

TEST_CASE("an NCCL thread reports kernels while the program makes calls") {
  const AfterHang after;
  NcclPlayer player = played(7);
  constexpr int kCommunicators = 50;
  constexpr int kCalls = 64;
  for (int i = 0; i < kCommunicators; ++i) {
    const std::uint64_t id = new_id();
    auto comm = player.init(id, kRanks, 1);
    std::vector<std::atomic<void*>> made(kCalls);
    std::thread nccl([&] {
      for (std::atomic<void*>& each : made) {
        while (each.load() == nullptr) std::this_thread::yield();
        player.end_kernel(player.begin_kernel(comm, each));
      }
    });
    for (std::atomic<void*>& each : made) {
      each = player.collective(comm, "AllReduce", 8, "ncclFloat32", 0, false, /*runs=*/false);
    }
    nccl.join();
    CHECK(gpu_of(id) == Numbers{1, kCalls, kCalls});
    player.finalize(comm);
  }
}

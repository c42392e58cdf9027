// Measures NCCL without the runtime, by the method of nccl-tests: 20 collectives run one after the other on a stream,
// then the host waits.
//
//   raw_nccl_bench RANK RANKS ID_FILE BYTES...   all_reduce of f32; rank 0 makes ID_FILE
//
// Prints a line of JSON per size: {"bytes", "microseconds", "call_microseconds", "blocking"}. `call_microseconds` is
// what a call costs the host. The functions are called through the tables that the runtime fills, as in the library.
// The memory is registered, as that of ProcessGroup::allocate is.
//
// The communicator is nonblocking, as the runtime's are. NCCL_COMM_BLOCKING=1 makes it blocking, as PyTorch's and
// nccl-tests' are.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "runtime/backend/nccl/cuda_api.h"
#include "runtime/backend/nccl/nccl_api.h"

namespace {

using Clock = std::chrono::steady_clock;
using ddp::internal::NcclResult;

constexpr int kBatch = 20;
constexpr int kRounds = 50;

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "raw_nccl_bench: %s failed\n", what);
  std::exit(1);
}

double microseconds(Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

ddp::internal::NcclUniqueId agree(const ddp::internal::NcclApi& nccl, int rank, const std::string& file) {
  ddp::internal::NcclUniqueId id{};
  if (rank == 0) {
    require(nccl.get_unique_id(id) == NcclResult::success, "ncclGetUniqueId");
    std::ofstream(file + ".new", std::ios::binary).write(id.data(), static_cast<std::streamsize>(id.size()));
    std::filesystem::rename(file + ".new", file);
    return id;
  }
  while (!std::filesystem::exists(file)) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::ifstream(file, std::ios::binary).read(id.data(), static_cast<std::streamsize>(id.size()));
  return id;
}

}  // namespace

int main(int argc, char** argv) {
  require(argc >= 5, "usage: RANK RANKS ID_FILE BYTES...; this");
  const auto& [cuda, no_cuda] = ddp::internal::cuda_library();
  const auto& [found_nccl, no_nccl] = ddp::internal::nccl_library();
  const auto& nccl = found_nccl;  // clang 14 captures no structured bindings
  require(no_cuda.empty(), no_cuda.c_str());
  require(no_nccl.empty(), no_nccl.c_str());
  const int rank = std::atoi(argv[1]);
  const bool is_blocking = nccl.blocking;
  int devices = 0;
  cuda.device_count(devices);
  require(cuda.set_device(devices > 1 ? rank : 0) == ddp::internal::kCudaSuccess, "cuCtxSetCurrent");
  const ddp::internal::NcclUniqueId id = agree(nccl, rank, argv[3]);
  ddp::internal::NcclComm comm = nullptr;
  NcclResult result = nccl.init_rank(comm, std::atoi(argv[2]), id, rank, is_blocking);
  // NCCL may set the handle after the call has returned.
  while (result == NcclResult::in_progress && std::atomic_ref<ddp::internal::NcclComm>(comm).load() == nullptr) {
    std::this_thread::yield();
  }
  const auto settle = [&] {
    while ((result = nccl.async_error(comm)) == NcclResult::in_progress) std::this_thread::yield();
    require(result == NcclResult::success, "NCCL");
  };
  require(comm != nullptr, "ncclCommInitRankConfig");
  settle();
  ddp::internal::CudaStreamHandle stream = nullptr;
  ddp::internal::CudaEventHandle event = nullptr;
  require(cuda.create_stream(stream) == ddp::internal::kCudaSuccess &&
              cuda.create_event(event) == ddp::internal::kCudaSuccess,
          "CUDA");

  for (int i = 4; i < argc; ++i) {
    const std::size_t bytes = std::strtoull(argv[i], nullptr, 10);
    void* memory = nullptr;
    require(nccl.allocate(memory, bytes) == NcclResult::success, "ncclMemAlloc");
    void* registration = nullptr;
    if (nccl.register_buffer) nccl.register_buffer(comm, memory, bytes, registration);
    std::vector<double> times;
    std::vector<double> calls;
    for (int round = 0; round < kRounds + 5; ++round) {
      const auto begin = Clock::now();
      for (int k = 0; k < kBatch; ++k) {
        result = nccl.all_reduce(memory, memory, bytes / 4, ddp::internal::NcclType::f32, ddp::internal::NcclOp::sum,
                                 comm, stream);
        if (result != NcclResult::success) settle();
      }
      const auto called = Clock::now();
      cuda.record_event(event, stream);
      while (cuda.query_event(event) == ddp::internal::kCudaNotReady) std::this_thread::yield();
      if (round < 5) continue;
      times.push_back(microseconds(Clock::now() - begin) / kBatch);
      calls.push_back(microseconds(called - begin) / kBatch);
    }
    std::sort(times.begin(), times.end());
    std::sort(calls.begin(), calls.end());
    if (rank == 0) {
      std::printf("{\"bytes\": %zu, \"microseconds\": %.3f, \"call_microseconds\": %.3f, \"blocking\": %s}\n", bytes,
                  times[times.size() / 2], calls[calls.size() / 2], is_blocking ? "true" : "false");
    }
    if (registration != nullptr) nccl.deregister_buffer(comm, registration);
    nccl.release(memory);
  }
  nccl.finalize(comm);
  settle();
  nccl.destroy(comm);
  return 0;
}

// Measures NCCL without the runtime, by the method of nccl-tests: collectives run one after the other on a stream, then
// the host waits.
//
//   ddplaunch --nproc_per_node=N raw_nccl_bench ID_FILE SECONDS BYTES...   all_reduce of f32; rank 0 makes ID_FILE
//
// A size takes about SECONDS, because ranks that share a GPU need milliseconds for each collective. Rank 0 prints a
// line of JSON per size: {"bytes", "microseconds", "call_microseconds", "blocking", "rounds"}. `call_microseconds` is
// what a call costs the host. Before the first and after the last size it prints the cost of the communicator:
// {"seconds"} and
// {"mebibytes"}. The functions are called through the tables that the runtime fills, as in the library.
//
// The communicator blocks, as those of the runtime, PyTorch and nccl-tests do. NCCL_COMM_BLOCKING=0 changes that.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "runtime/backend/nccl/cuda_api.h"
#include "runtime/backend/nccl/nccl_api.h"

namespace {

using namespace ddp::internal;
using Clock = std::chrono::steady_clock;

constexpr int kWarmUp = 2;
constexpr int kMostRounds = 50;
constexpr int kLeastRounds = 3;
constexpr std::size_t kLarge = std::size_t{1} << 20;

void require(bool condition, const std::string& what) {
  if (condition) return;
  std::fprintf(stderr, "raw_nccl_bench: %s failed\n", what.c_str());
  std::exit(1);
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

int number(const char* variable, int otherwise) {
  const char* value = std::getenv(variable);
  return value == nullptr ? otherwise : std::atoi(value);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

NcclUniqueId agree(const NcclApi& nccl, int rank, const std::string& file) {
  NcclUniqueId id{};
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

// Holds a communicator and a stream of this rank.
class Rank {
 public:
  Rank(const std::string& id_file, int rank, int ranks) : rank_(rank) {
    int devices = 0;
    cuda_.device_count(devices);
    require(cuda_.set_device(devices > 1 ? rank : 0) == kCudaSuccess, "cuCtxSetCurrent");
    std::size_t total = 0;
    cuda_.memory_info(free_at_first_, total);
    const NcclUniqueId id = agree(nccl_, rank, id_file);
    const auto begin = Clock::now();
    const NcclResult result = nccl_.init(comm_, ranks, id, rank, nccl_.blocking);
    // NCCL may set the handle after the call has returned.
    while (result == NcclResult::in_progress && std::atomic_ref<NcclComm>(comm_).load() == nullptr) {
      std::this_thread::yield();
    }
    require(comm_ != nullptr, "ncclCommInitRankConfig");
    settle();
    print("{\"ranks\": %d, \"blocking\": %s, \"seconds\": %.3f}\n", ranks, mode(), seconds_since(begin));
    require(
        cuda_.create_stream(stream_) == kCudaSuccess && cuda_.create_event(event_, kCudaUntimedEvent) == kCudaSuccess,
        "CUDA");
  }

  void measure(std::size_t bytes, double seconds) {
    void* memory = allocate(bytes);
    const int batch = bytes > kLarge ? 4 : 20;
    std::vector<double> calls;
    std::vector<double> times;
    // All ranks must make the same number of calls, so they agree on it after the warm-up.
    int rounds = kWarmUp;
    for (int round = 0; round < rounds; ++round) {
      const auto begin = Clock::now();
      for (int k = 0; k < batch; ++k) reduce(memory, bytes / 4, NcclOp::sum);
      const double called = seconds_since(begin);
      wait();
      const double took = seconds_since(begin);
      if (round == kWarmUp - 1) rounds += rounds_within(seconds, took);
      if (round < kWarmUp) continue;
      calls.push_back(called * 1e6 / batch);
      times.push_back(took * 1e6 / batch);
    }
    print("{\"bytes\": %zu, \"microseconds\": %.3f, \"call_microseconds\": %.3f, \"blocking\": %s, \"rounds\": %zu}\n",
          bytes, median(times), median(calls), mode(), times.size());
    nccl_.release(memory);
  }

  void finish() {
    std::size_t free = 0;
    std::size_t total = 0;
    cuda_.memory_info(free, total);
    const std::size_t used = free_at_first_ - std::min(free, free_at_first_);
    print("{\"blocking\": %s, \"mebibytes\": %zu}\n", mode(), used >> 20);
    nccl_.finalize(comm_);
    settle();
    nccl_.destroy(comm_);
  }

 private:
  // Prints on rank 0, at once, because the program may be ended at its limit.
  template <typename... Values>
  void print(const char* format, Values... values) const {
    if (rank_ != 0) return;
    std::printf(format, values...);
    std::fflush(stdout);
  }
  const char* mode() const { return nccl_.blocking ? "true" : "false"; }

  void settle() {
    NcclResult result{};
    while ((result = nccl_.async_error(comm_)) == NcclResult::in_progress) std::this_thread::yield();
    require(result == NcclResult::success, "NCCL");
  }
  void* allocate(std::size_t bytes) {
    void* memory = nullptr;
    require(nccl_.allocate(memory, bytes) == NcclResult::success, "ncclMemAlloc");
    cuda_.fill_async(memory, 0, bytes, stream_);
    return memory;
  }
  void reduce(void* memory, std::size_t count, NcclOp op) {
    const NcclResult result = nccl_.all_reduce(memory, memory, count, NcclType::f32, op, comm_, stream_);
    if (result != NcclResult::success) settle();
  }
  void wait() {
    cuda_.record_event(event_, stream_);
    while (cuda_.query_event(event_) == kCudaNotReady) std::this_thread::yield();
  }
  // The slowest rank decides.
  int rounds_within(double seconds, double of_a_round) {
    auto slowest = static_cast<float>(of_a_round);
    void* memory = allocate(sizeof slowest);
    cuda_.copy_async(memory, &slowest, sizeof slowest, stream_);
    reduce(memory, 1, NcclOp::max);
    cuda_.copy_async(&slowest, memory, sizeof slowest, stream_);
    wait();
    nccl_.release(memory);
    return static_cast<int>(
        std::clamp(seconds / static_cast<double>(slowest), double{kLeastRounds}, double{kMostRounds}));
  }

  const CudaApi& cuda_ = cuda_library();
  const NcclApi& nccl_ = nccl_library();
  const int rank_;
  std::size_t free_at_first_ = 0;
  NcclComm comm_ = nullptr;
  CudaStreamHandle stream_ = nullptr;
  CudaEventHandle event_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  const std::span<char*> words(argv, static_cast<std::size_t>(argc));
  require(argc >= 4, "usage: ID_FILE SECONDS BYTES...; this");
  require(cuda_library().obstacle().empty(), cuda_library().obstacle());
  require(nccl_library().obstacle().empty(), nccl_library().obstacle());
  Rank rank(words[1], number("RANK", 0), number("WORLD_SIZE", 1));
  for (const char* bytes : words.subspan(3)) rank.measure(std::strtoull(bytes, nullptr, 10), std::atof(words[2]));
  rank.finish();
  return 0;
}

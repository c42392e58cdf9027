// Measures collectives on a stream: NCCL alone, and the runtime, in turns in the same process.
//
//   stream_bench [BYTES...]   all_reduce of f32; started by ddplaunch, or alone as one rank
//
// Rank 0 prints a line of JSON per size, with medians in microseconds:
//
//   library       a call of NCCL and the look that it is on the stream, in a row of calls, until the GPU has done all
//   runtime       a call of the runtime with a stream, in the same row
//   library_call  what a call of NCCL and the look cost the host
//   call          what a call of the runtime costs the host
//   own           call - library_call: what the runtime adds, with its events
//   host_behind   a call without a stream right behind a few calls on the stream, until it returns
//   host_alone    such a call when nothing else is under way
#include <ddp/ddp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "runtime/backend/nccl/cuda_api.h"
#include "runtime/backend/nccl/nccl_api.h"

namespace {

using Clock = std::chrono::steady_clock;
using namespace ddp::internal;

constexpr int kRow = 500;
constexpr int kFew = 5;  // the runtime's own thread waits for them
constexpr int kRounds = 15;

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "stream_bench: %s failed\n", what);
  std::exit(1);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class Bench {
 public:
  explicit Bench(ddp::ProcessGroup& group) : group_(group) {
    require(
        cuda_.create_stream(stream_) == kCudaSuccess && cuda_.create_event(event_, kCudaUntimedEvent) == kCudaSuccess,
        "CUDA");
    NcclUniqueId id{};
    if (group.rank() == 0) require(nccl_.get_unique_id(id) == NcclResult::success, "ncclGetUniqueId");
    group.broadcast({id.data(), id.size(), ddp::DataType::u8}, 0).wait();
    require(!is_failure(nccl_.init(comm_, group.size(), id, group.rank(), false)), "ncclCommInitRankConfig");
    while (std::atomic_ref<NcclComm>(comm_).load() == nullptr) std::this_thread::yield();
    settle();
  }

  void measure(std::size_t bytes) {
    const ddp::Memory memory =
        group_.allocate(std::max<std::size_t>(bytes / 4, 1), ddp::DataType::f32, ddp::DeviceType::cuda);
    const ddp::Buffer values = memory;
    const auto library = [&] {
      require(!is_failure(
                  nccl_.all_reduce(values.data, values.data, values.count, NcclType::f32, NcclOp::sum, comm_, stream_)),
              "ncclAllReduce");
      settle();
    };
    const auto runtime = [&] {
      group_.all_reduce(values, ddp::ReduceOp::sum, {.stream = ddp::Stream::from_handle(stream_)}).wait();
    };
    const auto on_host = [&] { group_.all_reduce(values).wait(); };
    std::vector<double> library_times, runtime_times, library_calls, call_times, behind_times, alone_times;
    for (int round = -2; round < kRounds; ++round) {
      const Row alone = row(library);
      const Row ours = row(runtime);
      for (int i = 0; i < kFew; ++i) runtime();
      const double behind = time(on_host);
      finish();
      const double by_itself = time(on_host);
      if (round < 0) continue;
      library_times.push_back(alone.whole);
      library_calls.push_back(alone.call);
      runtime_times.push_back(ours.whole);
      call_times.push_back(ours.call);
      behind_times.push_back(behind);
      alone_times.push_back(by_itself);
    }
    if (group_.rank() != 0) return;
    std::printf(
        "{\"bytes\": %zu, \"ranks\": %d, \"library\": %.2f, \"runtime\": %.2f, \"library_call\": %.2f, \"call\": %.2f, "
        "\"own\": %.2f, \"host_behind\": %.1f, \"host_alone\": %.1f}\n",
        bytes, group_.size(), median(library_times), median(runtime_times), median(library_calls), median(call_times),
        median(call_times) - median(library_calls), median(behind_times), median(alone_times));
    std::fflush(stdout);
  }

 private:
  struct Row {
    double call = 0;   // until the last call has returned, per call
    double whole = 0;  // until the GPU has done all, per call
  };

  void settle() {
    NcclResult result = NcclResult::in_progress;
    while ((result = nccl_.async_error(comm_)) == NcclResult::in_progress) std::this_thread::yield();
    require(result == NcclResult::success, "NCCL");
  }
  void finish() {
    require(cuda_.record_event(event_, stream_) == kCudaSuccess, "cuEventRecord");
    while (cuda_.query_event(event_) == kCudaNotReady) std::this_thread::yield();
  }
  double time(const std::function<void()>& action) {
    const auto begin = Clock::now();
    action();
    return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
  }
  Row row(const std::function<void()>& call) {
    group_.barrier().wait();
    Row result;
    result.whole = time([&] {
      result.call = time([&] {
        for (int i = 0; i < kRow; ++i) call();
      });
      finish();
    });
    return {result.call / kRow, result.whole / kRow};
  }

  ddp::ProcessGroup& group_;
  const CudaApi& cuda_ = cuda_library();
  const NcclApi& nccl_ = nccl_library();
  CudaStreamHandle stream_ = nullptr;
  CudaEventHandle event_ = nullptr;
  NcclComm comm_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  try {
    ddp::ProcessGroup group = ddp::init();
    require(group.backend() == "nccl", group.backend_reason().c_str());
    int devices = 0;
    cuda_library().device_count(devices);
    require(cuda_library().set_device(group.local_rank() % devices) == kCudaSuccess, "cuCtxSetCurrent");
    Bench bench(group);
    for (int i = 1; i < argc; ++i) bench.measure(std::strtoull(argv[i], nullptr, 10));
    if (argc == 1) bench.measure(8);
    group.finalize();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "stream_bench: %s\n", error.what());
    return 1;
  }
}

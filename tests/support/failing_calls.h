// Lets one call of CUDA or NCCL fail, to test what follows from that.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "runtime/backend/nccl/gpu_libraries.h"

namespace ddp::test {

using namespace internal;

// Counts the calls that go through a table of functions, and lets one of them fail. A call that gives something back
// has its effect, but reports the failure.
class FailingCalls {
 public:
  enum class Until { once, always };  // whether the calls after it fail, too

  // Number 0 lets no call fail.
  explicit FailingCalls(long number, Until until = Until::once) : number_(number), until_(until) {}

  // Returns the tables with functions that count.
  std::shared_ptr<GpuLibraries> over(const std::shared_ptr<GpuLibraries>& real) {
    const auto made = std::make_shared<GpuLibraries>(*real);
    made->kernels = std::make_shared<LoadedKernels>();  // each rank loads its kernels, so that this may fail
    CudaApi& cuda = made->cuda;
    constexpr CudaStatus kUnknown = 999;
    count("device_count", cuda.device_count, kUnknown);
    count("set_device", cuda.set_device, kUnknown);
    count("device_of", cuda.device_of, kUnknown);
    count("create_stream", cuda.create_stream, kUnknown);
    count("stream_wait_event", cuda.stream_wait_event, kUnknown);
    count("is_capturing", cuda.is_capturing, kUnknown);
    count("exchange_capture_mode", cuda.exchange_capture_mode, kUnknown);
    count("create_event", cuda.create_event, kUnknown);
    count("create_timed_event", cuda.create_timed_event, kUnknown);
    count("record_event", cuda.record_event, kUnknown);
    count("query_event", cuda.query_event, kUnknown);
    count("seconds_between", cuda.seconds_between, kUnknown);
    count("allocate", cuda.allocate, kCudaOutOfMemory);
    count("memory_info", cuda.memory_info, kUnknown);
    count("allocate_pinned", cuda.allocate_pinned, kCudaOutOfMemory);
    count("copy_async", cuda.copy_async, kUnknown);
    count("zero_async", cuda.zero_async, kUnknown);
    count("map_host", cuda.map_host, kUnknown);
    count("write_number", cuda.write_number, kUnknown);
    count("load_module", cuda.load_module, kUnknown);
    count("find_function", cuda.find_function, kUnknown);
    count("launch", cuda.launch, kUnknown);
    count("destroy_stream", cuda.destroy_stream, kUnknown, true);
    count("destroy_event", cuda.destroy_event, kUnknown, true);
    count("release", cuda.release, kUnknown, true);
    count("release_pinned", cuda.release_pinned, kUnknown, true);
    NcclApi& nccl = made->nccl;
    constexpr NcclResult kFailure = NcclResult::unhandled_cuda_error;
    count("get_unique_id", nccl.get_unique_id, kFailure);
    count("init_rank", nccl.init_rank, kFailure);
    count("split", nccl.split, kFailure);
    count("async_error", nccl.async_error, kFailure);
    count("all_reduce", nccl.all_reduce, kFailure);
    count("reduce", nccl.reduce, kFailure);
    count("broadcast", nccl.broadcast, kFailure);
    count("all_gather", nccl.all_gather, kFailure);
    count("reduce_scatter", nccl.reduce_scatter, kFailure);
    count("send", nccl.send, kFailure);
    count("receive", nccl.receive, kFailure);
    count("group_start", nccl.group_start, kFailure);
    count("create_premultiplied_sum", nccl.create_premultiplied_sum, kFailure);
    count("nccl.allocate", nccl.allocate, kFailure);
    count("register_buffer", nccl.register_buffer, kFailure);
    count("group_end", nccl.group_end, kFailure, true);
    count("finalize", nccl.finalize, kFailure, true);
    count("destroy", nccl.destroy, kFailure, true);
    count("abort", nccl.abort, kFailure, true);
    count("destroy_op", nccl.destroy_op, kFailure, true);
    count("nccl.release", nccl.release, kFailure, true);
    count("deregister_buffer", nccl.deregister_buffer, kFailure, true);
    return made;
  }

  long calls() const { return state_->calls; }
  // Returns the names of the functions that failed.
  std::set<std::string> failed() const {
    const std::lock_guard lock(state_->mutex);
    return state_->failed;
  }

 private:
  // Threads that are left behind may still call the functions.
  struct State {
    std::atomic<long> calls = 0;
    std::mutex mutex;
    std::set<std::string> failed;
  };

  template <typename Result, typename... Arguments>
  void count(const char* name, std::function<Result(Arguments...)>& function, Result failure, bool has_effect = false) {
    if (!function) return;
    function = [=, state = state_, number = number_, until = until_, real = function](Arguments... arguments) {
      const long call = ++state->calls;
      if (number == 0 || call < number || (call > number && until == Until::once)) {
        return real(std::forward<Arguments>(arguments)...);
      }
      {
        const std::lock_guard lock(state->mutex);
        state->failed.insert(name);
      }
      if (has_effect) real(std::forward<Arguments>(arguments)...);
      return failure;
    };
  }

  const long number_;
  const Until until_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace ddp::test

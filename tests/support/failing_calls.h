// Lets one call of CUDA or NCCL fail, to test what follows from that.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "runtime/backend/nccl/gpu_libraries.h"
#include "support/replace.h"

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
    count<&CudaApi::device_count>("device_count", cuda, kUnknown);
    count<&CudaApi::use_context>("use_context", cuda, kUnknown);
    count<&CudaApi::get_attribute>("get_attribute", cuda, kUnknown);
    count<&CudaApi::create_prior_stream>("create_prior_stream", cuda, kUnknown);
    count<&CudaApi::stream_wait_event>("stream_wait_event", cuda, kUnknown);
    count<&CudaApi::get_capture_status>("get_capture_status", cuda, kUnknown);
    count<&CudaApi::exchange_capture_mode>("exchange_capture_mode", cuda, kUnknown);
    count<&CudaApi::create_event>("create_event", cuda, kUnknown);
    count<&CudaApi::record_event>("record_event", cuda, kUnknown);
    count<&CudaApi::query_event>("query_event", cuda, kUnknown);
    count<&CudaApi::get_elapsed_time>("get_elapsed_time", cuda, kUnknown);
    count<&CudaApi::allocate>("allocate", cuda, kCudaOutOfMemory);
    count<&CudaApi::memory_info>("memory_info", cuda, kUnknown);
    count<&CudaApi::allocate_pinned>("allocate_pinned", cuda, kCudaOutOfMemory);
    count<&CudaApi::copy_async>("copy_async", cuda, kUnknown);
    count<&CudaApi::fill_async>("fill_async", cuda, kUnknown);
    count<&CudaApi::register_host>("register_host", cuda, kUnknown);
    count<&CudaApi::write_number>("write_number", cuda, kUnknown);
    count<&CudaApi::load_module>("load_module", cuda, kUnknown);
    count<&CudaApi::find_function>("find_function", cuda, kUnknown);
    count<&CudaApi::launch_kernel>("launch_kernel", cuda, kUnknown);
    count<&CudaApi::destroy_stream>("destroy_stream", cuda, kUnknown, true);
    count<&CudaApi::destroy_event>("destroy_event", cuda, kUnknown, true);
    count<&CudaApi::release>("release", cuda, kUnknown, true);
    count<&CudaApi::release_pinned>("release_pinned", cuda, kUnknown, true);
    NcclApi& nccl = made->nccl;
    constexpr NcclResult kFailure = NcclResult::unhandled_cuda_error;
    count<&NcclApi::get_unique_id>("get_unique_id", nccl, kFailure);
    count<&NcclApi::init_rank>("init_rank", nccl, kFailure);
    count<&NcclApi::split>("split", nccl, kFailure);
    count<&NcclApi::get_async_error>("get_async_error", nccl, kFailure);
    count<&NcclApi::all_reduce>("all_reduce", nccl, kFailure);
    count<&NcclApi::reduce>("reduce", nccl, kFailure);
    count<&NcclApi::broadcast>("broadcast", nccl, kFailure);
    count<&NcclApi::all_gather>("all_gather", nccl, kFailure);
    count<&NcclApi::reduce_scatter>("reduce_scatter", nccl, kFailure);
    count<&NcclApi::send>("send", nccl, kFailure);
    count<&NcclApi::receive>("receive", nccl, kFailure);
    count<&NcclApi::group_start>("group_start", nccl, kFailure);
    count<&NcclApi::create_premultiplied_sum>("create_premultiplied_sum", nccl, kFailure);
    count<&NcclApi::allocate>("nccl.allocate", nccl, kFailure);
    count<&NcclApi::register_buffer>("register_buffer", nccl, kFailure);
    count<&NcclApi::group_end>("group_end", nccl, kFailure, true);
    count<&NcclApi::finalize>("finalize", nccl, kFailure, true);
    count<&NcclApi::destroy>("destroy", nccl, kFailure, true);
    count<&NcclApi::abort>("abort", nccl, kFailure, true);
    count<&NcclApi::destroy_op>("destroy_op", nccl, kFailure, true);
    count<&NcclApi::release>("nccl.release", nccl, kFailure, true);
    count<&NcclApi::deregister_buffer>("deregister_buffer", nccl, kFailure, true);
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

  // Each entry of a table has a body of its own type.
  template <auto kEntry, typename Api, typename Result>
  void count(const char* name, Api& api, Result failure, bool has_effect = false) {
    auto& function = api.*kEntry;
    if (!function) return;
    replace(function, [=, state = state_, number = number_, until = until_, real = function](auto&&... arguments) {
      const long call = ++state->calls;
      if (number == 0 || call < number || (call > number && until == Until::once)) {
        return real(std::forward<decltype(arguments)>(arguments)...);
      }
      {
        const std::lock_guard lock(state->mutex);
        state->failed.insert(name);
      }
      if (has_effect) real(std::forward<decltype(arguments)>(arguments)...);
      return failure;
    });
  }

  const long number_;
  const Until until_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace ddp::test

// gpu_probes measures what the driver and NCCL do on this GPU, without the runtime:
//
//   gpu_probes blocking   how long each call takes while a kernel occupies the GPU: does it wait for the kernel?
//   gpu_probes costs      what each call costs the host, and its operation the GPU
//   gpu_probes unmap      ncclMemFree of memory that a queued kernel writes: a wait or a fault?
//   gpu_probes stale CALL what the driver answers to the handle of a destroyed stream, which may be a crash. CALL is
//                         capturing, record, wait, or reused (as capturing, after more streams were created)
//
// Prints one line of JSON per measurement. `status` is the driver's or NCCL's number; -1 means that the library does
// not have the function. The exit code is 77 if the probe needs a kernel and none can run here.
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "gpu/driver.h"
#include "runtime/backend/nccl/cuda_api.h"
#include "runtime/backend/nccl/nccl_api.h"

namespace {

using ddp::gpu::Address;
using ddp::gpu::Handle;
using ddp::internal::NcclComm;
using ddp::internal::NcclResult;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kSpin = 300'000'000;  // nanoseconds
constexpr double kBlocks = 0.15;              // seconds; less than the rest of the spin, more than any call takes
constexpr std::size_t kBytes = std::size_t{4} << 20;
constexpr unsigned kNonBlocking = 1;
constexpr unsigned kDisableTiming = 2;
constexpr unsigned kPortable = 1;
constexpr unsigned kPortableAndMapped = 3;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Holds what the actions use. Each action makes its own handles before the kernel starts.
struct Gpu {
  ddp::gpu::Driver driver;
  ddp::internal::CudaApi cuda = ddp::internal::cuda_library();
  ddp::internal::NcclApi nccl = ddp::internal::nccl_library();
  Handle busy = nullptr;
  Handle other = nullptr;
  Handle event = nullptr;
  Handle stream = nullptr;
  Address memory = 0;
  void* host = nullptr;
  void* nccl_memory = nullptr;
  void* registration = nullptr;
  NcclComm comm = nullptr;
  NcclComm made = nullptr;
  std::vector<char> pageable = std::vector<char>(kBytes);

  Handle new_stream() const {
    Handle result = nullptr;
    driver.call("cuStreamCreate", &result, kNonBlocking);
    return result;
  }
  Address new_memory() const {
    Address result = 0;
    driver.call("cuMemAlloc_v2", &result, kBytes);
    return result;
  }
  int settle(const NcclComm& handle, NcclResult result) const {
    const auto begin = Clock::now();
    while (result == NcclResult::in_progress && seconds_since(begin) < 10) {
      if (handle != nullptr) result = nccl.async_error(handle);
      std::this_thread::yield();
    }
    return static_cast<int>(result);
  }
  int make_comm(NcclComm& result) const {
    ddp::internal::NcclUniqueId id{};
    const NcclResult got = nccl.get_unique_id(id);
    return got == NcclResult::success ? settle(result, nccl.init(result, 1, id, 0, nccl.blocking))
                                      : static_cast<int>(got);
  }
  int reduce(NcclComm handle, Handle on) const {
    return settle(handle, nccl.all_reduce(nccl_memory, nccl_memory, 2, ddp::internal::NcclType::f32,
                                          ddp::internal::NcclOp::sum, handle, on));
  }
};

struct Action {
  const char* name;
  std::function<int(Gpu&)> act;
  std::function<void(Gpu&)> prepare = nullptr;
  std::function<void(Gpu&)> clean = nullptr;
};

void* map_page() {
  return ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

void new_host(Gpu& gpu) {
  gpu.driver.call("cuMemHostAlloc", &gpu.host, kBytes, kPortable);
}
void free_host(Gpu& gpu) {
  gpu.driver.call("cuMemFreeHost", gpu.host);
}
void free_memory(Gpu& gpu) {
  gpu.driver.call("cuMemFree_v2", gpu.memory);
}

// Each action is measured while a kernel runs on gpu.busy.
std::vector<Action> driver_actions() {
  const auto new_memory = [](Gpu& gpu) { gpu.memory = gpu.new_memory(); };
  const auto new_stream = [](Gpu& gpu) { gpu.stream = gpu.new_stream(); };
  const auto new_event = [](Gpu& gpu) { gpu.driver.call("cuEventCreate", &gpu.event, kDisableTiming); };
  const auto map_host = [](Gpu& gpu) { gpu.host = map_page(); };
  const auto address = [](const void* memory) { return reinterpret_cast<Address>(memory); };
  return {
      {"cuMemAlloc", [](Gpu& g) { return g.driver.call("cuMemAlloc_v2", &g.memory, kBytes); }, nullptr, free_memory},
      {"cuMemFree", [](Gpu& g) { return g.driver.call("cuMemFree_v2", g.memory); }, new_memory},
      {"cuMemHostAlloc", [](Gpu& g) { return g.driver.call("cuMemHostAlloc", &g.host, kBytes, kPortable); }, nullptr,
       free_host},
      {"cuMemFreeHost", [](Gpu& g) { return g.driver.call("cuMemFreeHost", g.host); }, new_host},
      {"cuMemHostRegister",
       [](Gpu& g) { return g.driver.call("cuMemHostRegister_v2", g.host, kBytes, kPortableAndMapped); }, map_host,
       [](Gpu& g) { g.driver.call("cuMemHostUnregister", g.host); }},
      {"cuStreamCreate", [](Gpu& g) { return g.driver.call("cuStreamCreate", &g.stream, kNonBlocking); }, nullptr,
       [](Gpu& g) { g.driver.call("cuStreamDestroy_v2", g.stream); }},
      {"cuStreamDestroy", [](Gpu& g) { return g.driver.call("cuStreamDestroy_v2", g.stream); }, new_stream},
      {"cuEventCreate", [](Gpu& g) { return g.driver.call("cuEventCreate", &g.event, kDisableTiming); }, nullptr,
       [](Gpu& g) { g.driver.call("cuEventDestroy_v2", g.event); }},
      {"cuEventDestroy", [](Gpu& g) { return g.driver.call("cuEventDestroy_v2", g.event); }, new_event},
      {"cuMemcpyAsync from pageable memory, another stream",
       [address](Gpu& g) {
         return g.driver.call("cuMemcpyAsync", g.memory, address(g.pageable.data()), kBytes, g.other);
       },
       new_memory, free_memory},
      {"cuMemcpyAsync to pageable memory, another stream",
       [address](Gpu& g) {
         return g.driver.call("cuMemcpyAsync", address(g.pageable.data()), g.memory, kBytes, g.other);
       },
       new_memory, free_memory},
      {"a memset on another stream, until it is done",
       [](Gpu& g) {
         const int status = g.driver.call("cuMemsetD8Async", g.memory, static_cast<unsigned char>(0), kBytes, g.other);
         return status != 0 ? status : g.driver.call("cuStreamSynchronize", g.other);
       },
       new_memory, free_memory},
      {"cuModuleLoadData",
       [](Gpu& g) {
         Handle module = nullptr;
         return g.driver.call("cuModuleLoadData", &module, static_cast<const void*>(ddp::gpu::kWritePtx));
       }},
  };
}

std::vector<Action> nccl_actions() {
  const auto allocate = [](Gpu& g) { g.nccl.allocate(g.nccl_memory, kBytes); };
  const auto release = [](Gpu& g) { g.nccl.release(g.nccl_memory); };
  return {
      {"ncclMemAlloc", [](Gpu& g) { return static_cast<int>(g.nccl.allocate(g.nccl_memory, kBytes)); }, nullptr,
       release},
      {"ncclMemFree", [](Gpu& g) { return static_cast<int>(g.nccl.release(g.nccl_memory)); }, allocate},
      {"ncclCommRegister",
       [](Gpu& g) { return static_cast<int>(g.nccl.register_buffer(g.comm, g.nccl_memory, kBytes, g.registration)); },
       allocate,
       [release](Gpu& g) {
         g.nccl.deregister_buffer(g.comm, g.registration);
         release(g);
       }},
      {"ncclCommDeregister", [](Gpu& g) { return static_cast<int>(g.nccl.deregister_buffer(g.comm, g.registration)); },
       [allocate](Gpu& g) {
         allocate(g);
         g.nccl.register_buffer(g.comm, g.nccl_memory, kBytes, g.registration);
       },
       release},
      {"ncclCommInitRankConfig of one rank", [](Gpu& g) { return g.make_comm(g.made); }, nullptr,
       [](Gpu& g) { g.nccl.abort(g.made); }},
      {"ncclCommAbort of another communicator", [](Gpu& g) { return static_cast<int>(g.nccl.abort(g.made)); },
       [](Gpu& g) { g.make_comm(g.made); }},
  };
}

void measure_blocking(Gpu& gpu, const ddp::gpu::Kernels& kernels) {
  std::vector<Action> actions = driver_actions();
  for (Action& action : nccl_actions()) actions.push_back(std::move(action));
  for (const Action& action : actions) {
    gpu.made = nullptr;
    if (action.prepare) action.prepare(gpu);
    gpu.driver.call("cuStreamSynchronize", gpu.busy);
    kernels.spin(gpu.busy, kSpin);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the kernel starts
    const auto begin = Clock::now();
    const int status = action.act(gpu);
    const double seconds = seconds_since(begin);
    gpu.driver.call("cuStreamSynchronize", gpu.busy);
    if (action.clean && status == 0) action.clean(gpu);
    std::printf("{\"probe\": \"blocking\", \"what\": \"%s\", \"status\": %d, \"milliseconds\": %.3f, \"waits\": %s}\n",
                action.name, status, seconds * 1e3, seconds > kBlocks ? "true" : "false");
    std::fflush(stdout);
  }
}

// Each operation is put on a stream behind a short kernel, so that the GPU never waits for the host.
void measure_costs(Gpu& gpu, const ddp::gpu::Kernels& kernels) {
  constexpr int kCalls = 200;  // fewer than a stream holds before the host has to wait
  constexpr std::uint64_t kHeadStart = 20'000'000;
  void* const page = map_page();
  Address seen_at = 0;
  gpu.driver.call("cuMemHostRegister_v2", page, kBytes, kPortableAndMapped);
  gpu.driver.call("cuMemHostGetDevicePointer_v2", &seen_at, page, 0U);
  gpu.memory = gpu.new_memory();
  gpu.nccl.allocate(gpu.nccl_memory, kBytes);
  Handle mark = nullptr;
  Handle begin_mark = nullptr;
  Handle end_mark = nullptr;
  gpu.driver.call("cuEventCreate", &mark, kDisableTiming);
  gpu.driver.call("cuEventCreate", &begin_mark, 0U);
  gpu.driver.call("cuEventCreate", &end_mark, 0U);
  gpu.driver.call("cuEventRecord", mark, gpu.other);
  const auto write_to = [](Address place) {
    return [place](Gpu& g) { return g.driver.call("cuStreamWriteValue64_v2", g.busy, place, std::uint64_t{1}, 0U); };
  };
  const std::vector<Action> actions = {
      {"cuStreamWriteValue64 to host memory", write_to(seen_at)},
      {"cuStreamWriteValue64 to GPU memory", write_to(gpu.memory)},
      {"cuEventRecord", [mark](Gpu& g) { return g.driver.call("cuEventRecord", mark, g.busy); }},
      {"cuStreamWaitEvent", [mark](Gpu& g) { return g.driver.call("cuStreamWaitEvent", g.busy, mark, 0U); }},
      {"cuEventQuery",
       [mark](Gpu& g) {
         const int status = g.driver.call("cuEventQuery", mark);
         return status == ddp::internal::kCudaNotReady ? 0 : status;
       }},
      {"cuPointerGetAttribute",
       [](Gpu& g) {
         int device = 0;
         return g.driver.call("cuPointerGetAttribute", static_cast<void*>(&device), 9, g.memory);
       }},
      {"cuLaunchKernel of an empty kernel", [&kernels](Gpu& g) { return kernels.spin(g.busy, 0); }},
      {"cuMemsetD8Async of 8 bytes",
       [](Gpu& g) {
         return g.driver.call("cuMemsetD8Async", g.memory, static_cast<unsigned char>(0), std::size_t{8}, g.busy);
       }},
      {"ncclAllReduce of 8 bytes, one rank", [](Gpu& g) { return g.reduce(g.comm, g.busy); }},
      {"cuEventElapsedTime",
       [begin_mark, end_mark](Gpu& g) {
         float milliseconds = 0;
         const int status = g.driver.call("cuEventElapsedTime", &milliseconds, begin_mark, end_mark);
         return status == ddp::internal::kCudaNotReady ? 0 : status;
       }},
      {"cuEventCreate and cuEventDestroy",
       [](Gpu& g) {
         const int status = g.driver.call("cuEventCreate", &g.event, kDisableTiming);
         return status != 0 ? status : g.driver.call("cuEventDestroy_v2", g.event);
       }},
      {"cuStreamIsCapturing",
       [](Gpu& g) {
         int captures = 0;
         return g.driver.call("cuStreamIsCapturing", g.busy, &captures);
       }},
      {"cuThreadExchangeStreamCaptureMode",
       [](Gpu& g) {
         int mode = 0;  // global, which is what a thread has at first
         return g.driver.call("cuThreadExchangeStreamCaptureMode", &mode);
       }},
      {"cuCtxSetCurrent", [](Gpu& g) { return g.cuda.set_device(0); }},
      {"a thread that sets the device",
       [](Gpu& g) {
         int status = 0;
         std::thread([&] { status = g.cuda.set_device(0); }).join();
         return status;
       }},
  };
  for (const Action& action : actions) {
    int status = action.act(gpu);
    gpu.driver.call("cuStreamSynchronize", gpu.busy);
    kernels.spin(gpu.busy, kHeadStart);
    gpu.driver.call("cuEventRecord", begin_mark, gpu.busy);
    const auto begin = Clock::now();
    for (int i = 0; i < kCalls && status == 0; ++i) status = action.act(gpu);
    const double host = seconds_since(begin);
    gpu.driver.call("cuEventRecord", end_mark, gpu.busy);
    gpu.driver.call("cuStreamSynchronize", gpu.busy);
    float milliseconds = 0;
    gpu.driver.call("cuEventElapsedTime", &milliseconds, begin_mark, end_mark);
    // If the host was slower than the head start, its time is in the figure of the GPU.
    std::printf(
        "{\"probe\": \"costs\", \"what\": \"%s\", \"status\": %d, \"host_microseconds\": %.3f, "
        "\"gpu_microseconds\": %.3f, \"host_was_ahead\": %s}\n",
        action.name, status, host * 1e6 / kCalls, static_cast<double>(milliseconds) * 1e3 / kCalls,
        host * 1e9 < static_cast<double>(kHeadStart) ? "true" : "false");
    std::fflush(stdout);
  }
}

// The kernel is on the stream when its memory is freed, and runs later.
int measure_unmap(Gpu& gpu, const ddp::gpu::Kernels& kernels) {
  if (!kernels.can_write()) return 77;
  gpu.nccl.allocate(gpu.nccl_memory, kBytes);
  kernels.spin(gpu.busy, kSpin);
  kernels.write(gpu.busy, reinterpret_cast<Address>(gpu.nccl_memory));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const auto begin = Clock::now();
  const auto status = static_cast<int>(gpu.nccl.release(gpu.nccl_memory));
  const double seconds = seconds_since(begin);
  const int kernel = gpu.driver.call("cuStreamSynchronize", gpu.busy);
  std::printf(
      "{\"probe\": \"unmap\", \"what\": \"ncclMemFree of what a queued kernel writes\", \"status\": %d, "
      "\"milliseconds\": %.3f, \"waits\": %s, \"status_of_kernel\": %d}\n",
      status, seconds * 1e3, seconds > kBlocks ? "true" : "false", kernel);
  return 0;
}

int measure_stale(Gpu& gpu, const std::string& what) {
  gpu.memory = gpu.new_memory();
  gpu.stream = gpu.new_stream();
  gpu.driver.call("cuEventCreate", &gpu.event, kDisableTiming);
  gpu.driver.call("cuMemsetD8Async", gpu.memory, static_cast<unsigned char>(1), kBytes, gpu.stream);
  gpu.driver.call("cuStreamSynchronize", gpu.stream);
  gpu.driver.call("cuStreamDestroy_v2", gpu.stream);
  bool is_reused = false;
  if (what == "reused") {
    for (int i = 0; i < 64; ++i) is_reused = gpu.new_stream() == gpu.stream || is_reused;
  }
  int captures = -1;
  int status = 0;
  if (what == "record") {
    status = gpu.driver.call("cuEventRecord", gpu.event, gpu.stream);
  } else if (what == "wait") {
    status = gpu.driver.call("cuStreamWaitEvent", gpu.stream, gpu.event, 0U);
  } else {
    status = gpu.driver.call("cuStreamIsCapturing", gpu.stream, &captures);
  }
  std::printf("{\"probe\": \"stale\", \"what\": \"%s\", \"status\": %d, \"captures\": %d, \"handle_is_reused\": %s}\n",
              what.c_str(), status, captures, is_reused ? "true" : "false");
  return 0;
}

void require(bool condition, const std::string& what) {
  if (condition) return;
  std::fprintf(stderr, "gpu_probes: %s\n", what.c_str());
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string probe = argc > 1 ? argv[1] : "";
  require(probe == "blocking" || probe == "costs" || probe == "unmap" || (probe == "stale" && argc > 2),
          "usage: gpu_probes blocking|costs|unmap|stale CALL");
  require(ddp::internal::cuda_library().obstacle().empty(), ddp::internal::cuda_library().obstacle());
  require(ddp::internal::nccl_library().obstacle().empty(), ddp::internal::nccl_library().obstacle());
  Gpu gpu;
  require(gpu.cuda.set_device(0) == ddp::internal::kCudaSuccess, "the GPU has no context");
  gpu.busy = gpu.new_stream();
  gpu.other = gpu.new_stream();
  if (probe == "stale") return measure_stale(gpu, argv[2]);
  const ddp::gpu::Kernels kernels(gpu.driver);
  if (probe == "unmap") return measure_unmap(gpu, kernels);
  require(gpu.make_comm(gpu.comm) == 0, "NCCL makes no communicator of one rank");
  std::printf("{\"probe\": \"%s\", \"what\": \"kernel\", \"runs\": %s}\n", probe.c_str(),
              kernels.can_spin() ? "true" : "false");
  if (probe == "blocking") measure_blocking(gpu, kernels);
  if (probe == "costs") measure_costs(gpu, kernels);
  return 0;
}

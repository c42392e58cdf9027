// gpu_step_count counts the calls of CUDA and NCCL in a step of data parallel training, for gpu_step_model.py:
//
//   gpu_step_count [BUCKETS [PARAMETERS_PER_BUCKET [STEPS]]]
//
// Two ranks are threads of this process, on the GPUs of LD_LIBRARY_PATH, which may be the simulated ones. A host
// function keeps the program's stream busy until the host has called the whole step, as a GPU does that is slower than
// the host. So the counts do not depend on time, except those of polls. The program puts no other work on its stream.
// At most 1000 buckets are possible, because the runtime waits with more collectives until one is done.
//
// Prints one object of JSON: the calls per step of rank 0, by the thread that makes them and by their stream. Threads
// are the program's ("program") and the runtime's own ("runtime"). Streams are the program's ("program"), the one of
// NCCL's operations ("nccl"), others ("other"), or none ("").
#include <ddp/distributed_data_parallel.h>

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "runtime/backend/nccl/nccl_backend.h"
#include "runtime/group/group_core.h"
#include "support/replace.h"

namespace {

using namespace ddp::internal;
namespace wire = ddp::wire;

constexpr int kRanks = 2;
constexpr int kMostBuckets = 1000;
// A bucket has 128 KiB, because small collectives may be treated in another way.
constexpr std::size_t kBucketFloats = std::size_t{32} << 10;

thread_local bool is_program_thread = false;

class Counts {
 public:
  void add(const std::string& what, const void* stream, bool has_stream) {
    const std::lock_guard lock(mutex_);
    if (what == "nccl call") nccl_streams_.insert(stream);
    if (is_counting_) ++counts_[{is_program_thread ? "program" : "runtime", what, has_stream ? stream : no_stream_}];
  }
  void count(bool is_counting) {
    const std::lock_guard lock(mutex_);
    is_counting_ = is_counting;
  }

  void print(const void* program_stream, int steps) {
    const std::lock_guard lock(mutex_);
    std::map<std::tuple<std::string, std::string, std::string>, long> named;
    for (const auto& [key, number] : counts_) {
      const auto& [thread, what, stream] = key;
      const char* name = stream == no_stream_             ? ""
                         : stream == program_stream       ? "program"
                         : nccl_streams_.contains(stream) ? "nccl"
                                                          : "other";
      named[{thread, what, name}] += number;
    }
    const char* separator = "";
    for (const auto& [key, number] : named) {
      const auto& [thread, what, stream] = key;
      std::printf("%s\n  {\"thread\": \"%s\", \"what\": \"%s\", \"stream\": \"%s\", \"per_step\": %.3f}", separator,
                  thread.c_str(), what.c_str(), stream.c_str(), static_cast<double>(number) / steps);
      separator = ",";
    }
  }

 private:
  const void* const no_stream_ = this;  // the address of no stream

  std::mutex mutex_;
  bool is_counting_ = false;
  std::set<const void*> nccl_streams_;
  std::map<std::tuple<std::string, std::string, const void*>, long> counts_;
};

// Makes an entry of the table count its calls. The argument number `kStream` is the stream; -1 means that there is
// none.
template <auto kEntry, int kStream = -1, typename Api>
void count_calls(Api& api, Counts& counts, const std::string& what) {
  auto& function = api.*kEntry;
  if (!function) return;
  ddp::test::replace(function, [function, &counts, what](auto&&... arguments) {
    if constexpr (kStream >= 0) {
      counts.add(what, std::get<kStream>(std::tie(arguments...)), true);
    } else {
      counts.add(what, nullptr, false);
    }
    return function(arguments...);
  });
}

void count_cuda(CudaApi& cuda, Counts& counts) {
  count_calls<&CudaApi::use_context>(cuda, counts, "set device");
  count_calls<&CudaApi::get_attribute>(cuda, counts, "look up pointer");
  count_calls<&CudaApi::stream_wait_event, 0>(cuda, counts, "stream waits for event");
  count_calls<&CudaApi::create_event>(cuda, counts, "create event");
  count_calls<&CudaApi::record_event, 1>(cuda, counts, "record event");
  count_calls<&CudaApi::query_event>(cuda, counts, "poll event");
  count_calls<&CudaApi::get_elapsed_time>(cuda, counts, "time between events");
  count_calls<&CudaApi::allocate>(cuda, counts, "allocate");
  count_calls<&CudaApi::release>(cuda, counts, "free");
  count_calls<&CudaApi::create_prior_stream>(cuda, counts, "create stream");
  count_calls<&CudaApi::copy_async, 3>(cuda, counts, "copy");
  count_calls<&CudaApi::fill_async, 3>(cuda, counts, "memset");
  count_calls<&CudaApi::write_number, 0>(cuda, counts, "stream writes number");
  count_calls<&CudaApi::get_capture_status, 0>(cuda, counts, "is stream captured");
  count_calls<&CudaApi::exchange_capture_mode>(cuda, counts, "exchange capture mode");
  count_calls<&CudaApi::launch_kernel, 8>(cuda, counts, "kernel");
}

void count_nccl(NcclApi& nccl, Counts& counts) {
  count_calls<&NcclApi::all_reduce, 6>(nccl, counts, "nccl call");
  count_calls<&NcclApi::broadcast, 6>(nccl, counts, "nccl call");
  count_calls<&NcclApi::all_gather, 5>(nccl, counts, "nccl call");
  count_calls<&NcclApi::reduce_scatter, 6>(nccl, counts, "nccl call");
  count_calls<&NcclApi::group_start>(nccl, counts, "nccl group");
  count_calls<&NcclApi::create_premultiplied_sum>(nccl, counts, "nccl operator");
  count_calls<&NcclApi::get_async_error>(nccl, counts, "poll communicator");
}

// Keeps a stream busy until it is opened.
class Gate {
 public:
  Gate(void* driver, CudaStreamHandle stream) {
    auto* launch = reinterpret_cast<int (*)(void*, void (*)(void*), void*)>(::dlsym(driver, "cuLaunchHostFunc"));
    const auto wait = [](void* opened) { static_cast<std::promise<void>*>(opened)->get_future().wait(); };
    if (launch == nullptr || launch(stream, wait, &opened_) != 0) std::abort();
  }
  void open() { opened_.set_value(); }

 private:
  std::promise<void> opened_;
};

// Waits for the stream without the counted functions.
void synchronize(void* driver, CudaStreamHandle stream) {
  auto* function = reinterpret_cast<int (*)(void*)>(::dlsym(driver, "cuStreamSynchronize"));
  if (function == nullptr || function(stream) != 0) std::abort();
}

struct Shape {
  int buckets = 20;
  int parameters_per_bucket = 8;
  int steps = 20;
};

void train(int rank, const Shape& shape, const std::shared_ptr<ddp::Store>& store, wire::StatusPageLayout& page) {
  is_program_thread = true;
  auto* counts = new Counts;  // threads that are left behind may use it
  const auto libraries = std::make_shared<GpuLibraries>(GpuLibraries{nccl_library(), cuda_library()});
  count_cuda(libraries->cuda, *counts);
  count_nccl(libraries->nccl, *counts);
  GroupDescription description;
  description.options.rank = rank;
  description.options.size = kRanks;
  description.options.local_rank = rank;
  description.options.timeout = std::chrono::seconds(60);
  description.store = store;
  description.make_backend = [&](const BackendOptions& options,
                                 const std::shared_ptr<ddp::Store>& of) -> std::unique_ptr<Backend> {
    auto backend = std::make_unique<NcclBackend>(options, of, libraries);
    backend->mark_on(page, page.groups[static_cast<std::size_t>(rank)]);
    return backend;
  };
  ddp::ProcessGroup group(GroupCore::open(std::move(description)));

  const auto parameters = static_cast<std::size_t>(shape.buckets * shape.parameters_per_bucket);
  const std::size_t floats = kBucketFloats / static_cast<std::size_t>(shape.parameters_per_bucket);
  const ddp::Memory values = group.allocate(parameters * floats, ddp::DataType::f32, ddp::DeviceType::cuda);
  std::vector<ddp::Tensor> tensors;
  for (std::size_t i = 0; i < parameters; ++i) {
    tensors.push_back(
        {"p" + std::to_string(i), values.buffer().slice(i * floats, floats), {static_cast<std::int64_t>(floats)}});
  }
  CudaStreamHandle stream = nullptr;
  libraries->cuda.create_stream(stream);
  ddp::DataParallelOptions options;
  options.stream = ddp::Stream::from_handle(stream);
  options.buckets.first_bytes = options.buckets.bytes = kBucketFloats * sizeof(float);
  ddp::DistributedDataParallel data_parallel(group, tensors, options);
  void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW);
  // The first steps connect the ranks and refill the buckets. The next ones make as many events as a step needs.
  constexpr int kConnecting = 3;
  constexpr int kWarmUp = 8;
  for (int step = 0; step < kWarmUp + shape.steps; ++step) {
    std::optional<Gate> gate;
    if (step >= kConnecting) gate.emplace(driver, stream);  // while ranks connect, NCCL must not wait
    counts->count(step >= kWarmUp);
    data_parallel.zero_gradients();
    for (std::size_t i = parameters; i-- > 0;) data_parallel.mark_ready(i);
    data_parallel.finish();
    counts->count(false);
    if (gate) gate->open();
    synchronize(driver, stream);
    // The barrier ends when the runtime has noticed that all earlier collectives are done. If too many were unfinished,
    // the next step would have to wait for them, behind its own gate.
    group.barrier().wait();
  }
  data_parallel.verify_parameters();
  if (rank != 0) return;
  std::printf("{\"buckets\": %d, \"parameters\": %zu, \"steps\": %d, \"calls\": [", shape.buckets, parameters,
              shape.steps);
  counts->print(stream, shape.steps);
  std::printf("\n]}\n");
}

}  // namespace

int main(int argc, char** argv) {
  Shape shape;
  int* const numbers[] = {&shape.buckets, &shape.parameters_per_bucket, &shape.steps};
  for (int i = 1; i < argc && i < 4; ++i) *numbers[i - 1] = std::max(1, std::atoi(argv[i]));
  shape.buckets = std::min(shape.buckets, kMostBuckets);
  for (const std::string& obstacle : {cuda_library().obstacle(), nccl_library().obstacle()}) {
    if (obstacle.empty()) continue;
    std::fprintf(stderr, "gpu_step_count: %s\n", obstacle.c_str());
    return 77;
  }
  const auto store = ddp::make_memory_store(std::chrono::seconds(60));
  static wire::StatusPageLayout page;  // mapped for the GPU until the process ends
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] {
      try {
        train(rank, shape, store, page);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "gpu_step_count: rank %d: %s\n", rank, error.what());
        std::_Exit(1);
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return 0;
}

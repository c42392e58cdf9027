#include "runtime/backend/nccl/nccl_backend.h"

#include <ddp/error.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <vector>

#include "base/host_name.h"
#include "runtime/backend/backends.h"
#include "runtime/backend/nccl/cuda_resources.h"
#include "runtime/backend/nccl/cuda_side_stream.h"
#include "runtime/backend/nccl/device_choice.h"
#include "runtime/backend/nccl/gpu_kernels.h"
#include "runtime/backend/nccl/nccl_errors.h"
#include "runtime/backend/nccl/what_to_try.h"
#include "runtime/limits.h"
#include "runtime/peers/node_group.h"
#include "runtime/peers/peer_watch.h"
#include "runtime/progress/state_gate.h"
#include "runtime/reduction/ordered.h"
#include "runtime/reduction/reduction.h"
#include "wire/worker_env.h"

namespace ddp::internal {
namespace {

// The queue is long enough that the GPU never waits for the host, which looks only now and then what is done. Small
// operations may end every few microseconds. The queue is shorter than the list of calls that peers compare.
constexpr BeginsAhead kBeginsAhead{.always = 32, .most = 1024, .bytes = std::size_t{256} << 20};
static_assert(kBeginsAhead.most < kCallPrints);

bool is_set_to(const char* variable, std::string_view wanted) {
  const char* value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe)
  return value != nullptr && value == wanted;
}

int choose_device(const CudaApi& cuda, int local_rank) {
  int count = 0;
  require_cuda(cuda, cuda.device_count(count), "count the GPUs");
  return device_of(local_rank, count);
}

// Makes memory known to the lane's communicator. Returns the task that ends this, or null if NCCL does not know the
// memory.
HeapTask registration(const std::weak_ptr<NcclLane>& lane, void* memory, std::size_t bytes) {
  const auto alive = lane.lock();
  void* handle = alive ? alive->communicator().register_buffer(memory, bytes) : nullptr;
  if (handle == nullptr) return nullptr;
  return [lane, handle] {
    const auto owner = lane.lock();
    return !owner || owner->communicator().deregister_buffer(handle);
  };
}

}  // namespace

NcclBackend::NcclBackend(const BackendOptions& options, std::shared_ptr<Store> store,
                         std::shared_ptr<const GpuLibraries> libraries)
    : NcclBackend(options, std::move(store), libraries, choose_device(libraries->cuda, options.local_rank)) {
  const GpuScope scope(cuda_, device_);
  collectives_ = make_lane("nccl/id", members(options_.rank, options_.size), Operation::all_reduce);
}

NcclBackend::NcclBackend(const BackendOptions& options, std::shared_ptr<Store> store,
                         std::shared_ptr<const GpuLibraries> libraries, int device)
    : options_(options),
      store_(std::move(store)),
      libraries_(std::move(libraries)),
      cuda_(libraries_->cuda),
      device_(device),
      heap_(std::make_shared<GpuHeap>(
          libraries_, device_,
          // What this rank does on its own GPU needs no other rank. If a stream waits for one that is lost, the
          // operation on the stream fails, and the group is aborted.
          [aborted = &aborted_, failure = failure_] {
            if (*aborted) throw failure->aborted();
          },
          options_.rank)) {}

// From now on, memory is registered with the communicator of the group's collectives.
void NcclBackend::register_memory() {
  registers_ = true;
  heap_->register_with([lane = std::weak_ptr(collectives_)](void* memory, std::size_t bytes) {
    return registration(lane, memory, bytes);
  });
}

// All communicators close at the same time, so that they share the limit. While an exception unwinds the stack, nothing
// is waited for, because a rank that will never answer would hide the exception.
NcclBackend::~NcclBackend() {
  cuda_.set_device(device_);
  heap_->register_with(nullptr);
  if (std::uncaught_exceptions() > 0) {
    abort();
    return;
  }
  std::vector<NcclLane*> lanes;
  if (collectives_) lanes.push_back(collectives_.get());
  for (const auto& [key, lane] : transfers_) lanes.push_back(lane.get());
  const auto until = std::chrono::steady_clock::now() + libraries_->closing_limit;
  if (!aborted_) {
    for (NcclLane* lane : lanes) lane->communicator().begin_closing();
    for (NcclLane* lane : lanes) lane->communicator().finish_closing(until);
  }
  for (NcclLane* lane : lanes) {
    lane->communicator().has_ended(until);
    lane->wait_until(until);
  }
  // The next group may need the memory.
  if (!aborted_) heap_->is_swept(until - std::chrono::steady_clock::now());
}

// `peer` is the only other rank of the group that is a member. It is -1 if all ranks are members.
NcclMembers NcclBackend::members(int rank, int size, Operation operation, int peer) const {
  return {rank,
          size,
          device_,
          options_.connect_timeout.count() > 0 ? options_.connect_timeout : options_.timeout,
          libraries_->closing_limit,
          [libraries = libraries_, device = device_] {
            libraries->cuda.set_device(device);
            int mode = kCudaCaptureRelaxed;
            libraries->cuda.exchange_capture_mode(mode);
          },
          &aborted_,
          std::make_shared<PeerWatch>(options_.node_group, operation, peer),
          std::make_shared<PeerWatch>(options_.node_group)};
}

std::unique_ptr<NcclLane> NcclBackend::make_lane(const std::string& key, const NcclMembers& members,
                                                 Operation operation) {
  const NcclUniqueId id = agree_on_id(libraries_->nccl, store_, key, members);
  auto communicator = std::make_unique<NcclCommunicator>(libraries_->nccl, members, id);
  return std::make_unique<NcclLane>(cuda_, options_.rank, options_.size, std::move(communicator), heap_,
                                    host_waits_for(operation));
}

NcclLane* NcclBackend::lane_of(const Call& call) {
  if (!is_transfer(call.operation)) return collectives_.get();
  const std::lock_guard lock(mutex_);
  const auto found = transfers_.find({call.operation, call.peer});
  return found == transfers_.end() ? nullptr : found->second.get();
}

// Each direction between two ranks has its own communicator, so that neither direction waits for the other.
NcclLane& NcclBackend::made_lane_of(const Call& call) {
  if (NcclLane* lane = lane_of(call); lane != nullptr) return *lane;
  const bool sends = call.operation == Operation::send;
  const int from = sends ? options_.rank : call.peer;
  const int to = sends ? call.peer : options_.rank;
  NcclMembers pair = members(sends ? 0 : 1, 2, call.operation, call.peer);
  pair.timeout = call.timeout;
  auto lane = make_lane("nccl/id/" + std::to_string(from) + "-" + std::to_string(to), pair, call.operation);
  const std::lock_guard lock(mutex_);
  return *(transfers_[{call.operation, call.peer}] = std::move(lane));
}

BeginsAhead NcclBackend::begins_ahead() const {
  return kBeginsAhead;
}

bool NcclBackend::runs_on_gpu(const Call& call) {
  return nccl_can(call) || (reduces_in_order(call) && kernels() != nullptr);
}

void NcclBackend::check(const Call& call) const {
  const GpuScope scope(cuda_, device_);
  if (call.stream) require_usable_stream(cuda_, call.stream.handle(), std::string(to_string(call.operation)));
  require_own_memory(call);
  if (call.stream) heap_->follow(call.stream.handle());
}

bool NcclBackend::begin(std::span<const Call* const> calls, bool may_wait) {
  NcclLane* lane = lane_of(*calls.front());
  if (lane == nullptr) return false;
  // All ranks must form the same groups, and one of them may have no kernels.
  const auto can_begin = [&](const Call* call) {
    return runs_on_gpu(*call) && !touches_host_memory(*call) && (calls.size() == 1 || !reduces_in_order(*call));
  };
  if (!std::ranges::all_of(calls, can_begin)) return false;
  bool begun = false;
  guarded(*calls.front(), [&] { begun = lane->begin(calls, may_wait); });
  return begun;
}

void NcclBackend::run(const Call& call) {
  guarded(call, [&] {
    if (NcclLane* lane = lane_of(call); lane != nullptr && lane->has_begun(call)) return lane->finish(call);
    if (runs_on_gpu(call)) {
      made_lane_of(call).run(call);
    } else {
      if (call.stream) heap_->events().finish(call.stream.handle(), call.timeout);
      reduces_in_order(call) ? reduce_in_order_on_host(call) : reduce_all_on_host(call);
    }
  });
  if (!is_transfer(call.operation)) has_worked_ = true;
}

// Every rank gathers the data of all ranks and reduces the part that it needs.
void NcclBackend::reduce_all_on_host(const Call& call) {
  const int size = options_.size;
  std::vector<ConstBuffer> inputs = {call.input};
  std::size_t own_bytes = 0;
  std::size_t first = 0;  // offset in bytes of this rank's part
  if (call.operation == Operation::reduce_scatter) {
    inputs.clear();
    for (int other = 0; other < size; ++other) inputs.push_back(input_part(call, other, size));
    for (int other = 0; other < options_.rank; ++other) first += inputs[static_cast<std::size_t>(other)].bytes();
  }
  for (const ConstBuffer& input : inputs) own_bytes += input.bytes();
  std::vector<std::byte> own(own_bytes);
  std::byte* end = own.data();
  for (const ConstBuffer& input : inputs) {
    copy({end, input.count, input.type}, input, {});
    end += input.bytes();
  }
  std::vector<std::byte> all(own_bytes * static_cast<std::size_t>(size));
  Call gather = call;
  gather.operation = Operation::all_gather;
  gather.input_parts.clear();
  gather.input = {own.data(), own.size(), DataType::u8};
  gather.output = {all.data(), all.size(), DataType::u8};
  collectives_->run(gather);
  if (call.output.count == 0 || (call.operation == Operation::reduce && call.peer != options_.rank)) return;

  std::vector<ReductionSource> sources;
  for (std::size_t from = first; from < all.size(); from += own_bytes) sources.push_back({all.data() + from, 1});
  void* result = own.data();
  reduce(call.output.type, call.op, sources, {&result, 1}, call.output.count);
  copy(call.output, {result, call.output.count, call.output.type}, {});
}

// Without kernels, the host computes the integers. The other ranks need not know.
void NcclBackend::reduce_in_order_on_host(const Call& call) {
  std::vector<std::byte> bytes(call.output.bytes());
  const Buffer values{bytes.data(), call.output.count, call.output.type};
  copy(values, call.output, {});
  std::vector<std::int64_t> integers(call.output.count);  // large enough for both types
  Call on_host = call;
  on_host.output = values;
  on_host = call_on_integers(on_host, integers.data());
  to_ordered(values, call.op.kind == ReduceOp::max, on_host.output);
  collectives_->run(on_host);
  from_ordered(on_host.output, values);
  copy(call.output, values, {});
}

void NcclBackend::join_stream(const Call& call) {
  const GpuScope scope(cuda_, device_);
  if (NcclLane* lane = lane_of(call); lane != nullptr) lane->join_stream(call);
}

void NcclBackend::mark_on(wire::StatusPageLayout& page, wire::PageGroup& place) {
  show_device(cuda_, device_, page);
  if (is_set_to(wire::env::kGpuMarks, "0")) return;
  const GpuScope scope(cuda_, device_);
  collectives_->mark_with(std::make_unique<GpuMarks>(cuda_, page, place));
}

// The driver waits for the device while it loads the kernels, and a collective on the device may wait for other ranks.
// So they are loaded before the first collective. The driver compiles them at their first use on a computer.
void NcclBackend::try_out(std::chrono::milliseconds timeout) {
  float one = 1;
  Call trial;
  trial.operation = Operation::all_reduce;
  trial.output = {&one, 1, DataType::f32};
  trial.input = trial.output;
  trial.timeout = timeout;
  kernels();
  run(trial);
  if (one != static_cast<float>(options_.size)) {
    throw wrong_sum_error(one, options_.size, what_to_try(GpuSurroundings::inspect(*libraries_, true, false)));
  }
  if (is_set_to(wire::env::kGpuRegister, "1")) try_registered_memory(timeout);
}

// See docs/development/decisions/0050-memory-is-registered-on-request.md. The first sum connects the ranks, and the
// second one does not.
void NcclBackend::try_registered_memory(std::chrono::milliseconds timeout) {
  register_memory();
  constexpr std::size_t kCount = std::size_t{1} << 18;  // a block with an allocation of its own
  const std::shared_ptr<void> memory = allocate_on_gpu(kCount * sizeof(float));
  Call trial;
  trial.operation = Operation::all_reduce;
  trial.output = {memory.get(), kCount, DataType::f32, DeviceType::cuda};
  trial.input = trial.output;
  trial.timeout = timeout;
  for (int turn = 0; turn < 2; ++turn) {
    std::vector<float> values(kCount, 1.0F);
    copy(trial.output, {values.data(), kCount, DataType::f32}, {});
    run(trial);
    copy({values.data(), kCount, DataType::f32}, trial.output, {});
    if (std::ranges::count(values, static_cast<float>(options_.size)) == static_cast<std::ptrdiff_t>(kCount)) continue;
    throw wrong_registered_sum_error(wire::env::kGpuRegister);
  }
}

// After a failed collective, no operation can follow. A failed transfer does not affect the rest of the group.
template <typename Action>
void NcclBackend::guarded(const Call& call, Action&& action) {
  if (aborted_) throw failed_communicator_error();
  try {
    const GpuScope scope(cuda_, device_);
    action();
  } catch (const Error& error) {
    // If another thread aborts NCCL during an operation, NCCL may report any error.
    if (aborted_) throw failure_->aborted();
    if (is_transfer(call.operation)) {
      if (NcclLane* lane = lane_of(call); lane != nullptr) lane->abort();
      throw;
    }
    const bool is_riddle = error.kind() == ErrorKind::timeout || error.kind() == ErrorKind::internal;
    const bool first = !has_worked_ && options_.size > 1;
    failure_->keep(error.what());
    abort();
    if (!is_riddle || !first) throw;
    const std::size_t here = options_.node_group ? options_.node_group->size() : 1;
    const bool several_nodes = here < static_cast<std::size_t>(options_.size);
    throw first_failure_error(error, what_to_try(GpuSurroundings::inspect(*libraries_, here > 1, several_nodes)));
  }
}

void NcclBackend::abort() {
  StateGate::of_process().before_abort();  // other threads fail as soon as they see the flag
  if (aborted_.exchange(true)) return;
  // A poller that sees the flag no longer calls NCCL. The locks of the communicators exclude the other threads.
  if (collectives_) collectives_->abort();
  const std::lock_guard lock(mutex_);
  for (const auto& [key, lane] : transfers_) lane->abort();
}

void NcclBackend::require_own_memory(const Call& call) const {
  require_own_memory(call.output);
  if (call.input.data != call.output.data) require_own_memory(call.input);
  for (const ConstBuffer& part : call.input_parts) require_own_memory(part);
  for (const Buffer& part : call.output_parts) require_own_memory(part);
}

// With a wrong pointer, NCCL would read or write anywhere, and the whole GPU context would be lost.
void NcclBackend::require_own_memory(const ConstBuffer& buffer) const {
  if (buffer.device != DeviceType::cuda || buffer.count == 0) return;
  int device = kNoCudaDevice;
  require_cuda(cuda_, cuda_.device_of(buffer.data, device), "look up a pointer");
  if (device == device_) return;
  if (device == kNoCudaDevice) throw not_on_gpu_error(describe(buffer));
  throw on_other_gpu_error(describe(buffer), device, device_);
}

std::unique_ptr<Backend> NcclBackend::split(const BackendOptions& options, std::shared_ptr<Store> store, int color) {
  const GpuScope scope(cuda_, device_);
  if (color < 0) {
    collectives_->communicator().stay_out_of_split();
    return nullptr;
  }
  std::unique_ptr<NcclBackend> made(new NcclBackend(options, std::move(store), libraries_, device_));
  auto communicator = std::make_unique<NcclCommunicator>(libraries_->nccl, made->members(options.rank, options.size),
                                                         collectives_->communicator(), color, options.rank);
  made->collectives_ = std::make_shared<NcclLane>(made->cuda_, options.rank, options.size, std::move(communicator),
                                                  made->heap_, made->host_waits_for(Operation::all_reduce));
  if (registers_) made->register_memory();
  return made;
}

std::shared_ptr<void> NcclBackend::allocate_on_gpu(std::size_t bytes) {
  return heap_->allocate(bytes);
}

std::shared_ptr<void> NcclBackend::allocate_pinned(std::size_t bytes) {
  return heap_->allocate_pinned(bytes);
}

// Copies on a separate stream, because the streams of the lanes may wait for other ranks.
void NcclBackend::copy(const Buffer& to, const ConstBuffer& from, Stream before) {
  const GpuScope scope(cuda_, device_);
  if (before) require_usable_stream(cuda_, before.handle(), "copy");
  require_own_memory(to);
  require_own_memory(from);
  if (from.count == 0) return;
  if (before) heap_->wait_for(before.handle());
  if (to.device == DeviceType::cpu && from.device == DeviceType::cpu) return Backend::copy(to, from, {});
  require_cuda(cuda_, cuda_.copy_async(to.data, from.data, from.bytes(), heap_->copies()),
               "copy " + std::to_string(from.bytes()) + " bytes");
  heap_->wait_for(heap_->copies());
}

void NcclBackend::zero(const Buffer& buffer, Stream stream) {
  if (buffer.device == DeviceType::cpu) return Backend::zero(buffer, stream);
  const GpuScope scope(cuda_, device_);
  require_own_memory(buffer);
  if (stream) refuse_stream_per_thread(stream.handle(), "zero");
  if (buffer.count == 0) return;
  const CudaStreamHandle place = stream ? stream.handle() : heap_->copies();
  if (stream) heap_->follow(place);
  require_cuda(cuda_, cuda_.fill_async(buffer.data, 0, buffer.bytes(), place), "clear memory");
  if (!stream) heap_->wait_for(place);
}

std::unique_ptr<SideStream> NcclBackend::side_stream() {
  const GpuScope scope(cuda_, device_);
  return std::make_unique<CudaSideStream>(std::shared_ptr<const CudaApi>(libraries_, &libraries_->cuda), device_,
                                          heap_);
}

GpuKernels* NcclBackend::kernels() {
  std::call_once(kernels_are_loaded_, [this] {
    kernels_ = GpuKernels::load(libraries_, device_, heap_);
    collectives_->order_with(kernels_.get());
    kernels_in_use_ = kernels_.get();
  });
  return kernels_.get();
}

GpuMath* NcclBackend::gpu_math() {
  return kernels();
}

// Loading the kernels would wait for the GPU.
void NcclBackend::forget(Stream stream) {
  if (GpuKernels* kernels = kernels_in_use_; kernels != nullptr) kernels->forget(stream);
  if (!heap_->forget(stream.handle())) throw captured_forget_error();
}

std::shared_ptr<void> NcclBackend::register_buffer(const Buffer& buffer) {
  const GpuScope scope(cuda_, device_);
  require_own_memory(buffer);
  if (buffer.device != DeviceType::cuda || !registers_) return nullptr;
  HeapTask end = registration(collectives_, buffer.data, buffer.bytes());
  if (!end) return nullptr;
  return {buffer.data, [heap = heap_, end = std::move(end)](void*) { heap->after_streams(end); }};
}

ProbeResult probe_nccl(const BackendOptions& options) {
  // The driver is checked first, because without a GPU it does not matter whether NCCL exists.
  if (!cuda_library().obstacle().empty()) return {cuda_library().obstacle(), ""};
  const bool gpu_may_be_shared = is_set_to("NCCL_MULTI_RANK_GPU_ENABLE", "1");
  const ProbeResult found = probe_device(options.local_rank, cuda_library(), base::host_name(), gpu_may_be_shared);
  if (!found.obstacle.empty()) return found;
  return nccl_library().obstacle().empty() ? found : ProbeResult{nccl_library().obstacle(), ""};
}

std::unique_ptr<Backend> make_nccl_backend(const BackendOptions& options, std::shared_ptr<Store> store) {
  static const std::shared_ptr<const GpuLibraries> libraries =
      std::make_shared<const GpuLibraries>(GpuLibraries{nccl_library(), cuda_library()});
  return std::make_unique<NcclBackend>(options, std::move(store), libraries);
}

}  // namespace ddp::internal

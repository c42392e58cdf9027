// How an operation runs: it is put on this rank's own stream, then communicator and stream are looked at in turn until
// both are done, one has failed or the time is up. Nothing in here ever waits inside CUDA or NCCL, because such a wait
// has no end when a peer is gone: the kernel of a collective spins until the other ranks come or it is aborted.
#include "runtime/backend/nccl/nccl_backend.h"

#include <ddp/error.h>

#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "runtime/backend/nccl/device_choice.h"
#include "runtime/backend/polling.h"

namespace ddp {
namespace {

constexpr const char* kIdKey = "nccl/id";

// Longer than a small collective takes, shorter than what would be felt as a busy core.
constexpr std::chrono::milliseconds kSpin{5};

NcclUniqueId agree_on_id(const BackendOptions& options, Store& store, const NcclApi& nccl) {
  NcclUniqueId id{};
  if (options.rank == 0) {
    if (const NcclResult result = nccl.get_unique_id(id); result != NcclResult::success) {
      throw Error(ErrorKind::internal,
                  "NCCL cannot make a unique id (" + nccl.error_string(result) + "; " + nccl.last_error(nullptr) + ")");
    }
    store.set(kIdKey, std::string_view(id.data(), id.size()));
    return id;
  }
  const std::string value = store.get(kIdKey);
  if (value.size() != id.size()) {
    throw Error(ErrorKind::mismatch, "rank 0 sent an NCCL id of " + std::to_string(value.size()) + " bytes, not " +
                                         std::to_string(id.size()) + ": the ranks run different programs");
  }
  std::copy(value.begin(), value.end(), id.begin());
  return id;
}

// Refused before anything begins, so that the communicator stays usable.
void require_support(const Call& call) {
  const bool known = call.operation == Operation::all_reduce || call.operation == Operation::broadcast ||
                     call.operation == Operation::all_gather || call.operation == Operation::barrier;
  if (!known) {
    throw Error(ErrorKind::unavailable, "backend nccl has no " + std::string(to_string(call.operation)) +
                                            " yet. Use cpu or gloo for it, in a group of its own.");
  }
  const DataType type = subject_of(call).type;
  if (type == DataType::i16) throw Error(ErrorKind::unavailable, "NCCL has no 16-bit integers. Use i32.");
  if (call.operation == Operation::all_reduce && call.op.kind > ReduceOp::max) {
    throw Error(ErrorKind::unavailable,
                "backend nccl has no reduction " + std::string(to_string(call.op.kind)) + " yet.");
  }
}

}  // namespace

NcclBackend::NcclBackend(const BackendOptions& options, Store& store, NcclApi nccl, CudaApi cuda,
                         std::chrono::milliseconds closing_limit)
    : options_(options), nccl_(std::move(nccl)), cuda_(std::move(cuda)), scratch_(cuda_) {
  const NcclUniqueId id = agree_on_id(options_, store, nccl_);
  int device_count = 0;
  require_cuda(cuda_, cuda_.device_count(device_count), "count the GPUs");
  device_ = device_of(options_.local_rank, device_count);
  make_device_current();
  stream_.emplace(cuda_);
  communicator_.emplace(nccl_, options_, id, closing_limit);
}

NcclBackend::~NcclBackend() {
  if (!usable_) return;
  cuda_.set_device(device_);
  if (!communicator_->close()) {
    stream_->abandon();
    scratch_.abandon();
  }
}

void NcclBackend::run(const Call& call) {
  require_support(call);
  if (!usable_) throw Error(ErrorKind::aborted, "the NCCL communicator was aborted after an earlier failure");
  try {
    make_device_current();
    timeout_ = call.timeout.count() > 0 ? call.timeout : options_.timeout;
    run_on_device(call);
  } catch (...) {
    abandon();
    throw;
  }
}

void NcclBackend::run_on_device(const Call& call) {
  switch (call.operation) {
    case Operation::all_reduce:
      return all_reduce(call.output, call.op);
    case Operation::broadcast:
      return broadcast(call.output, call.peer);
    case Operation::all_gather:
      return call.output_parts.empty() ? all_gather(call.output, call.input) : all_gather_parts(call);
    case Operation::barrier:
      return barrier();
    default:
      return;  // refused before
  }
}

void NcclBackend::all_reduce(const Buffer& buffer, ReduceOp op) {
  const bool staged = buffer.device == DeviceType::cpu;
  void* data = staged ? scratch_.reserve(buffer.bytes()) : buffer.data;
  if (staged) copy(data, buffer.data, buffer.bytes(), CopyDirection::to_device);
  complete(nccl_.all_reduce(data, data, buffer.count, buffer.type, op, communicator_->handle(), stream_->handle()));
  if (staged) copy(buffer.data, data, buffer.bytes(), CopyDirection::to_host);
}

void NcclBackend::broadcast(const Buffer& buffer, int root) {
  const bool staged = buffer.device == DeviceType::cpu;
  const bool is_root = options_.rank == root;
  void* data = staged ? scratch_.reserve(buffer.bytes()) : buffer.data;
  if (staged && is_root) copy(data, buffer.data, buffer.bytes(), CopyDirection::to_device);
  complete(nccl_.broadcast(data, data, buffer.count, buffer.type, root, communicator_->handle(), stream_->handle()));
  if (staged && !is_root) copy(buffer.data, data, buffer.bytes(), CopyDirection::to_host);
}

void NcclBackend::all_gather(const Buffer& output, const ConstBuffer& input) {
  const bool output_staged = output.device == DeviceType::cpu;
  void* gathered = output_staged ? scratch_.reserve(output.bytes()) : output.data;
  // A host input goes straight to where NCCL would put it, so it needs no device memory of its own.
  void* own_part = static_cast<char*>(gathered) + static_cast<std::size_t>(options_.rank) * input.bytes();
  const void* send = input.data;
  if (input.device == DeviceType::cpu) {
    copy(own_part, input.data, input.bytes(), CopyDirection::to_device);
    send = own_part;
  }
  complete(nccl_.all_gather(send, gathered, input.count, input.type, communicator_->handle(), stream_->handle()));
  if (output_staged) copy(output.data, gathered, output.bytes(), CopyDirection::to_host);
}

// NCCL's all-gather knows equal parts only.
void NcclBackend::all_gather_parts(const Call& call) {
  const Buffer& own = call.output_parts[static_cast<std::size_t>(options_.rank)];
  if (own.device != DeviceType::cpu) {
    throw Error(ErrorKind::unavailable, "backend nccl gathers parts of different sizes in host memory only");
  }
  if (own.data != call.input.data && own.count > 0) std::memcpy(own.data, call.input.data, own.bytes());
  for (int root = 0; root < options_.size; ++root) {
    const Buffer& part = call.output_parts[static_cast<std::size_t>(root)];
    if (part.count > 0) broadcast(part, root);
  }
}

void NcclBackend::barrier() {
  // What is summed does not matter.
  void* element = scratch_.reserve(size_of(DataType::u8));
  complete(
      nccl_.all_reduce(element, element, 1, DataType::u8, ReduceOp::max, communicator_->handle(), stream_->handle()));
}

void NcclBackend::make_device_current() const {
  require_cuda(cuda_, cuda_.set_device(device_), "use GPU " + std::to_string(device_));
}

void NcclBackend::complete(NcclResult enqueued) {
  if (is_failure(enqueued)) communicator_->throw_failure(enqueued, "the GPUs' collective cannot begin");
  const Polling polling(timeout_, kSpin);
  while (true) {
    // The communicator first: while it is in progress the operation may not be on the stream yet, and an empty stream
    // would look like a finished one.
    const NcclResult state = communicator_->state();
    if (is_failure(state)) {
      communicator_->throw_failure(state, state == NcclResult::remote_error
                                              ? "the connection to another rank broke: that rank has ended"
                                              : "the GPUs' collective failed");
    }
    if (state == NcclResult::success) {
      const CudaStatus status = cuda_.query_stream(stream_->handle());
      if (status == kCudaSuccess) return;
      if (status != kCudaNotReady) require_cuda(cuda_, status, "finish the work on the GPU");
    }
    if (!polling.pause()) {
      throw Error(ErrorKind::timeout, "a rank did not take part within " + base::human_duration(timeout_) + " (nccl)");
    }
  }
}

void NcclBackend::copy(void* to, const void* from, std::size_t bytes, CopyDirection direction) {
  // CUDA may finish a copy from or to ordinary host memory within the call, and then waits for the stream's earlier
  // work. There never is any: the collective before it has been polled to its end.
  require_cuda(cuda_, cuda_.copy_async(to, from, bytes, direction, stream_->handle()),
               direction == CopyDirection::to_device ? "copy to the GPU" : "copy from the GPU");
  // What is enqueued next waits for a copy to the device by itself; the caller of a copy to the host does not.
  if (direction == CopyDirection::to_host) complete(NcclResult::success);
}

void NcclBackend::abandon() {
  usable_ = false;
  if (communicator_->abort()) return;
  stream_->abandon();
  scratch_.abandon();
}

}  // namespace ddp

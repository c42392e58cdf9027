#include "runtime/backend/nccl/nccl_lane.h"

#include <ddp/error.h>

#include <vector>

#include "runtime/backend/backend_errors.h"
#include "runtime/backend/nccl/gpu_kernels.h"
#include "runtime/backend/nccl/nccl_errors.h"
#include "runtime/backend/polling.h"
#include "runtime/limits.h"
#include "runtime/reduction/ordered.h"

namespace ddp::internal {
namespace {

// The spin is longer than a small collective takes, and too short to be noticed as a busy core. If only a stream waits
// for the operation, the host does not spin.
constexpr std::chrono::milliseconds kCallSpin{5};
constexpr std::chrono::milliseconds kNoSpin{0};
constexpr Sleeps kUrgent{std::chrono::microseconds(20), std::chrono::microseconds(50)};
constexpr Sleeps kNotUrgent{std::chrono::microseconds(20), std::chrono::microseconds(1000)};

}  // namespace

NcclLane::NcclLane(const CudaApi& cuda, int rank, int size, std::unique_ptr<NcclCommunicator> communicator,
                   std::shared_ptr<GpuHeap> heap, const std::atomic<int>& host_waits)
    : cuda_(cuda),
      rank_(rank),
      size_(size),
      host_waits_(host_waits),
      heap_(std::move(heap)),
      events_(cuda),
      stream_(cuda),
      communicator_(std::move(communicator)) {
  heap_->follow(stream_.handle());
}

// The memory is given back first, while the stream exists. If NCCL hangs, the stream is never done, so the memory stays
// with the process, and so does the stream.
NcclLane::~NcclLane() {
  for (const auto& [sequence, event] : begun_) events_.put_back(event);
  communicator_->abort();
  token_.reset();
  scratch_ = {};
  integers_ = {};
  if (!communicator_->has_ended(until_)) stream_.abandon();
  heap_->forget(stream_.handle());
}

CudaEventHandle NcclLane::wait_for_stream_of(const Call& call) {
  if (!call.stream) return nullptr;
  const CudaStreamHandle stream = call.stream.handle();
  CudaEventHandle ready = nullptr;
  // The program may have destroyed the stream without waiting for the operation, because another one has failed.
  if (!heap_->use(stream, [&] { ready = events_.record(stream); })) throw forgotten_stream_error();
  const CudaStatus status = cuda_.stream_wait_event(stream_.handle(), ready, 0);
  if (status != kCudaSuccess) events_.put_back(ready);
  require_cuda(cuda_, status, "order streams");
  return ready;
}

// 16-bit values need more room as integers.
Call NcclLane::on_integers(const Call& call) {
  const std::size_t bytes = call.output.count * size_of(ordered_type(call.output.type));
  const bool fits = bytes <= call.output.bytes();
  return call_on_integers(call, fits ? call.output.data : reserve(integers_, bytes));
}

bool NcclLane::begin(std::span<const Call* const> calls, bool may_wait) {
  const Call& first = *calls.front();
  const std::optional<Call> integers = reduces_in_order(first) ? std::optional(on_integers(first)) : std::nullopt;
  std::vector<NcclStep> steps;
  for (const Call* call : calls) {
    if (call->operation == Operation::barrier && !token_) token_ = heap_->allocate(1, stream_.handle());
    const Call& changed = integers ? *integers : *call;
    for (NcclStep& step : nccl_steps(changed, rank_, size_, token_.get())) steps.push_back(step);
  }
  const Launch launch = connections_.suffice_for(steps) ? Launch::known : Launch::connects;
  if (launch == Launch::connects && !may_wait) return false;
  RecordedEvents ready(events_);
  RecordedEvents done(events_);
  for (const Call* call : calls) {
    if (const CudaEventHandle event = wait_for_stream_of(*call); event != nullptr) ready.all.push_back(event);
  }
  const std::uint64_t last = calls.back()->sequence;
  if (marks_) marks_->queue(last);
  const Stream stream = Stream::from_handle(stream_.handle());
  if (integers) kernels_->to_ordered(first.output, first.op.kind == ReduceOp::max, integers->output, stream);
  if (!steps.empty()) communicator_->start(steps, stream_.handle(), first.timeout, launch);
  if (launch == Launch::connects) connections_.add(steps);
  if (integers) kernels_->from_ordered(integers->output, first.output, stream);
  for (std::size_t i = 0; i < calls.size(); ++i) done.all.push_back(events_.record(stream_.handle()));
  // Another thread puts the events back when it has waited for the operations, which it does only when they are in the
  // map.
  if (marks_) marks_->mark(last, ready.all, done.all.back());
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < calls.size(); ++i) begun_[calls[i]->sequence] = done.all[i];
  done.all.clear();
  return true;
}

bool NcclLane::has_begun(const Call& call) {
  const std::lock_guard lock(mutex_);
  return begun_.contains(call.sequence);
}

void NcclLane::finish(const Call& call) {
  CudaEventHandle done = nullptr;
  {
    const std::lock_guard lock(mutex_);
    done = begun_.at(call.sequence);
  }
  await(done, call);
  {
    const std::lock_guard lock(mutex_);
    begun_.erase(call.sequence);
  }
  events_.put_back(done);
}

void NcclLane::run(const Call& call) {
  StagedCall staged;
  const Call* next = &call;
  if (touches_host_memory(call)) {
    if (const CudaEventHandle event = wait_for_stream_of(call); event != nullptr) events_.put_back(event);
    staged = stage(call, rank_, size_, reserve(scratch_, staging_bytes(call)));
    next = &staged.call;
    copy_all(staged.before, call);
  }
  begin({&next, 1}, true);
  finish(call);
  copy_all(staged.after, call);
}

void NcclLane::join_stream(const Call& call) {
  const std::lock_guard lock(mutex_);
  const auto found = begun_.find(call.sequence);
  // If the operation is not found, it is done.
  if (found == begun_.end()) return;
  require_cuda(cuda_, cuda_.stream_wait_event(call.stream.handle(), found->second, 0), "order streams");
}

// The stream is empty, so a copy waits only for itself. CUDA may block while it copies host memory.
void NcclLane::copy_all(std::span<const StagedCall::Copy> copies, const Call& call) {
  if (copies.empty()) return;
  for (const StagedCall::Copy& each : copies) {
    require_cuda(cuda_, cuda_.copy_async(each.to, each.from, each.bytes, stream_.handle()),
                 "copy " + std::to_string(each.bytes) + " bytes");
  }
  events_.finish(stream_.handle(), call.timeout);
}

void NcclLane::await(CudaEventHandle event, const Call& call) {
  Polling urgent(call.timeout, kCallSpin, kUrgent);
  Polling not_urgent(call.timeout, kNoSpin, kNotUrgent);
  const auto urgent_until = std::chrono::steady_clock::now() + limits::kLongWait;
  std::optional<std::chrono::steady_clock::time_point> begun;
  last_span_.reset();
  while (true) {
    const bool has_seen_begin = begun.has_value();
    if (!has_seen_begin && marks_ && marks_->has_begun(call.sequence)) begun = std::chrono::steady_clock::now();
    // The communicator is checked first, because an operation that failed may have left the stream as if it were done.
    if (communicator_->settled()) {
      const CudaStatus status = cuda_.query_event(event);
      if (status == kCudaSuccess) {
        if (has_seen_begin) last_span_ = {*begun, std::chrono::steady_clock::now()};
        return;
      }
      if (status != kCudaNotReady) require_cuda(cuda_, status, "finish the work on the GPU");
    }
    const bool is_urgent = (!call.stream || host_waits_.load(std::memory_order_relaxed) > 0) &&
                           std::chrono::steady_clock::now() < urgent_until;
    if (!(is_urgent ? urgent : not_urgent).pause()) throw unknown_late_error(call.timeout, "nccl");
  }
}

}  // namespace ddp::internal

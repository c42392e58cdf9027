#include "runtime/backend/nccl/nccl_communicator.h"

#include <ddp/data_type.h>
#include <ddp/error.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "base/text.h"
#include "runtime/backend/polling.h"
#include "runtime/limits.h"

namespace ddp::internal {
namespace {

// The code polls this long for a communicator's change of state before it sleeps. These are not hot paths.
constexpr std::chrono::milliseconds kConnectSpin{1};
// A killed process with many threads takes a while to disappear.
constexpr std::chrono::milliseconds kReasonLook{100};
constexpr std::chrono::seconds kStoreIsLate{1};  // normally the store answers within milliseconds
constexpr const char* kSplitDeed = "the ranks cannot split their NCCL communicator";

// Holds one element of the type, as NCCL reads it.
union Scalar {
  Float16 f16;
  BFloat16 bf16;
  float f32;
  double f64;
};

Scalar scalar_of(double factor, NcclType type) {
  Scalar scalar{.f64 = factor};
  if (type == NcclType::f32) scalar.f32 = static_cast<float>(factor);
  if (type == NcclType::f16) scalar.f16 = Float16(static_cast<float>(factor));
  if (type == NcclType::bf16) scalar.bf16 = BFloat16(static_cast<float>(factor));
  return scalar;
}

// Keeps the handle until the process ends, because NCCL may still write to it.
void leave_to_nccl(std::unique_ptr<NcclComm> handle) {
  static std::mutex mutex;
  static auto* left = new std::vector<std::unique_ptr<NcclComm>>;
  const std::lock_guard lock(mutex);
  left->push_back(std::move(handle));
}

// Runs a request on a separate thread, while this thread checks for lost ranks. If the store has died with a rank, the
// request waits until the store's own timeout, so its thread is left behind. If the store fails, that error is reported
// only if no rank is lost. A lost rank would be the reason.
template <typename Request>
auto look_around_during(const NcclMembers& members, Request request) {
  std::packaged_task<decltype(request())()> task(std::move(request));
  auto result = task.get_future();
  std::thread(std::move(task)).detach();
  const auto begun = std::chrono::steady_clock::now();
  while (result.wait_for(limits::kStoreLook) != std::future_status::ready) {
    members.look_around();
    // The store is lost with the rank that serves it, which need not be a member.
    const bool is_late = std::chrono::steady_clock::now() - begun > kStoreIsLate;
    if (is_late && members.all_ranks) members.all_ranks->look();
  }
  try {
    return result.get();
  } catch (const Error&) {
    members.look_for_the_reason();
    throw;
  }
}

}  // namespace

void NcclMembers::look_around() const {
  if (*aborted) throw Error(ErrorKind::aborted, "the process group was aborted");
  if (peers) peers->look();
}

void NcclMembers::look_for_the_reason() const {
  const auto end = std::chrono::steady_clock::now() + kReasonLook;
  while (all_ranks && std::chrono::steady_clock::now() < end) {
    all_ranks->look();
    std::this_thread::sleep_for(limits::kPeerLook);
  }
}

NcclUniqueId agree_on_id(const NcclApi& nccl, const std::shared_ptr<Store>& store, const std::string& key,
                         const NcclMembers& members) {
  NcclUniqueId id{};
  if (members.rank == 0) {
    if (const NcclResult result = nccl.get_unique_id(id); result != NcclResult::success) {
      throw Error(ErrorKind::internal, "NCCL cannot create a unique id (" + nccl.error_string(result) + "; " +
                                           nccl.last_error(nullptr) + ")");
    }
    look_around_during(members, [=] { store->set(key, std::string_view(id.data(), id.size())); });
    return id;
  }
  // The code polls, because a wait in the store could not check for lost ranks.
  const auto end = std::chrono::steady_clock::now() + members.timeout;
  while (!look_around_during(members, [=] { return store->check({&key, 1}); })) {
    members.look_around();
    if (std::chrono::steady_clock::now() > end) {
      throw Error(ErrorKind::timeout, "no NCCL id arrived within " + base::human_duration(members.timeout));
    }
    std::this_thread::sleep_for(limits::kStoreLook);
  }
  const std::string value = look_around_during(members, [=] { return store->get(key); });
  if (value.size() != id.size()) {
    throw Error(ErrorKind::mismatch, "another rank sent an NCCL id of " + std::to_string(value.size()) +
                                         " bytes, not " + std::to_string(id.size()) +
                                         ": the ranks run different programs");
  }
  std::copy(value.begin(), value.end(), id.begin());
  return id;
}

NcclCommunicator::NcclCommunicator(const NcclApi& nccl, const NcclMembers& members, const NcclUniqueId& id)
    : nccl_(nccl), members_(members) {
  const NcclResult result = nccl_.init_rank(*made_, members_.size, id, members_.rank);
  if (is_failure(result)) throw_failure(result, "the ranks cannot create their NCCL communicator");
  finish_making();
}

NcclCommunicator::NcclCommunicator(const NcclApi& nccl, const NcclMembers& members, NcclCommunicator& parent, int color,
                                   int key)
    : nccl_(nccl), members_(members) {
  const std::lock_guard settled(parent.settling_);
  {
    const std::lock_guard lock(parent.mutex_);
    const NcclResult result = nccl_.split(parent.handle(), color, key, *made_);
    if (is_failure(result)) parent.throw_failure(result, kSplitDeed);
  }
  finish_making(&parent);
}

void NcclCommunicator::stay_out_of_split() {
  const std::lock_guard settled(settling_);
  {
    const std::lock_guard lock(mutex_);
    static NcclComm none = nullptr;
    const NcclResult result = nccl_.split(handle(), kNcclNoColor, 0, none);
    if (is_failure(result)) throw_failure(result, kSplitDeed);
  }
  settle(members_.timeout, kSplitDeed, "a rank did not take part");
}

void NcclCommunicator::finish_making(NcclCommunicator* parent) {
  try {
    if (parent != nullptr) parent->settle(members_.timeout, kSplitDeed, "a rank did not take part");
    settle(members_.timeout, "the ranks cannot create their NCCL communicator", "a rank did not arrive");
    being_made_ = false;
  } catch (const Error&) {
    abort();
    leave_to_nccl(std::move(made_));
    throw;
  }
}

void NcclCommunicator::start(std::span<const NcclStep> steps, CudaStreamHandle stream,
                             std::chrono::milliseconds timeout) {
  constexpr const char* kDeed = "the GPUs' collective cannot start";
  const std::lock_guard settled(settling_);
  {
    const std::lock_guard lock(mutex_);
    if (handle() == nullptr) throw Error(ErrorKind::aborted, "the NCCL communicator was aborted");
    std::vector<NcclOp> ops;  // one per step
    for (const NcclStep& step : steps) ops.push_back(step.factor ? premultiplied_sum(step) : step.op);
    NcclResult result = steps.size() > 1 ? nccl_.group_start() : NcclResult::success;
    for (std::size_t i = 0; i < steps.size() && !is_failure(result); ++i) result = start_step(steps[i], ops[i], stream);
    // A started group must be ended, even if a step in it has failed.
    const NcclResult ended = steps.size() > 1 ? nccl_.group_end() : NcclResult::success;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (steps[i].factor) nccl_.destroy_op(ops[i], handle());
    }
    if (is_failure(result)) throw_failure(result, kDeed);
    if (is_failure(ended)) throw_failure(ended, kDeed);
  }
  settle(timeout, kDeed, "a rank did not take part");
}

NcclResult NcclCommunicator::start_step(const NcclStep& step, NcclOp op, CudaStreamHandle stream) {
  const NcclComm comm = handle();
  switch (step.function) {
    case NcclFunction::all_reduce:
      return nccl_.all_reduce(step.send, step.receive, step.count, step.type, op, comm, stream);
    case NcclFunction::reduce:
      return nccl_.reduce(step.send, step.receive, step.count, step.type, op, step.peer, comm, stream);
    case NcclFunction::broadcast:
      return nccl_.broadcast(step.send, step.receive, step.count, step.type, step.peer, comm, stream);
    case NcclFunction::all_gather:
      return nccl_.all_gather(step.send, step.receive, step.count, step.type, comm, stream);
    case NcclFunction::reduce_scatter:
      return nccl_.reduce_scatter(step.send, step.receive, step.count, step.type, op, comm, stream);
    case NcclFunction::send:
      return nccl_.send(step.send, step.count, step.type, step.peer, comm, stream);
    case NcclFunction::receive:
      return nccl_.receive(step.receive, step.count, step.type, step.peer, comm, stream);
  }
  return NcclResult::invalid_argument;
}

NcclOp NcclCommunicator::premultiplied_sum(const NcclStep& step) {
  NcclOp op = NcclOp::sum;
  Scalar scalar = scalar_of(*step.factor, step.type);
  const NcclResult result = nccl_.create_premultiplied_sum(op, &scalar, step.type, handle());
  if (is_failure(result)) throw_failure(result, "NCCL cannot create a premultiplied sum");
  return op;
}

NcclComm NcclCommunicator::handle() const {
  return ended_ || !made_ ? nullptr : std::atomic_ref<NcclComm>(*made_).load(std::memory_order_acquire);
}

NcclResult NcclCommunicator::state() {
  const std::lock_guard lock(mutex_);
  const NcclComm comm = handle();
  if (comm == nullptr) return being_made_ ? NcclResult::in_progress : NcclResult::invalid_usage;
  return nccl_.async_error(comm);
}

bool NcclCommunicator::settled() {
  members_.look_around();
  const NcclResult now = state();
  if (is_failure(now)) {
    members_.look_for_the_reason();
    throw_failure(now, now == NcclResult::remote_error
                           ? "the connection to another rank broke, because that rank has exited"
                           : "the GPUs' collective failed");
  }
  return now == NcclResult::success;
}

void NcclCommunicator::settle(std::chrono::milliseconds timeout, const char* action, const char* late) {
  const Polling polling(timeout, kConnectSpin);
  while (!settled()) {
    if (polling.pause()) continue;
    throw Error(ErrorKind::timeout,
                std::string(action) + ": " + late + " within " + base::human_duration(timeout) + " (nccl)");
  }
}

void* NcclCommunicator::register_buffer(void* memory, std::size_t bytes) {
  const std::lock_guard settled(settling_);
  const std::lock_guard lock(mutex_);
  void* handle = nullptr;
  if (this->handle() == nullptr || !nccl_.register_buffer || bytes == 0) return nullptr;
  return is_failure(nccl_.register_buffer(this->handle(), memory, bytes, handle)) ? nullptr : handle;
}

void NcclCommunicator::deregister_buffer(void* handle) {
  const std::lock_guard settled(settling_);
  const std::lock_guard lock(mutex_);
  if (this->handle() != nullptr && handle != nullptr) nccl_.deregister_buffer(this->handle(), handle);
}

void NcclCommunicator::close() {
  const std::lock_guard lock(mutex_);
  const NcclComm comm = handle();
  if (comm == nullptr) return;
  NcclResult result = nccl_.finalize(comm);
  const Polling polling(members_.closing_limit, kConnectSpin);
  while (result == NcclResult::in_progress && polling.pause()) result = nccl_.async_error(comm);
  // If finalizing did not end, destroying would wait for the same thing without a limit.
  end(result == NcclResult::success ? nccl_.destroy : nccl_.abort);
}

void NcclCommunicator::abort() {
  const std::lock_guard lock(mutex_);
  if (handle() != nullptr) end(nccl_.abort);
}

// Runs the function on a separate thread, which holds everything that it needs if it is left behind. Whatever the
// function returns, the communicator no longer exists afterwards.
void NcclCommunicator::end(const std::function<NcclResult(NcclComm)>& function) {
  std::packaged_task<void()> task([function, comm = handle(), enter = members_.enter] {
    if (enter) enter();
    function(comm);
  });
  ended_ = true;
  ending_ = task.get_future();
  try {
    std::thread(std::move(task)).detach();
  } catch (const std::system_error&) {
    // If no thread can be started, the communicator is left as it is.
  }
}

bool NcclCommunicator::has_ended() {
  const std::lock_guard lock(mutex_);
  return !ending_.valid() || ending_.wait_for(members_.closing_limit) == std::future_status::ready;
}

NcclCommunicator::~NcclCommunicator() {
  abort();
}

void NcclCommunicator::throw_failure(NcclResult failure, const char* action) const {
  const ErrorKind kind = failure == NcclResult::remote_error ? ErrorKind::peer_lost
                         : failure == NcclResult::timeout    ? ErrorKind::timeout
                                                             : ErrorKind::internal;
  const std::string detail = nccl_.last_error(nullptr);
  throw Error(kind, std::string(action) + " (NCCL: " + nccl_.error_string(failure) +
                        (detail.empty() ? "" : "; " + detail) + ")");
}

}  // namespace ddp::internal

#include "runtime/backend/nccl/nccl_communicator.h"

#include <ddp/data_type.h>
#include <ddp/error.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/side_thread.h"
#include "runtime/backend/backend_errors.h"
#include "runtime/backend/nccl/nccl_errors.h"
#include "runtime/backend/polling.h"
#include "runtime/limits.h"
#include "runtime/progress/state_gate.h"

namespace ddp::internal {
namespace {

// The code polls this long for a communicator's change of state before it sleeps. These are not hot paths.
constexpr std::chrono::milliseconds kConnectSpin{1};

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

NcclResult start_step(const NcclApi& nccl, NcclComm comm, const NcclStep& step, NcclOp op, CudaStreamHandle stream) {
  switch (step.function) {
    case NcclFunction::all_reduce:
      return nccl.all_reduce(step.send, step.receive, step.count, step.type, op, comm, stream);
    case NcclFunction::reduce:
      return nccl.reduce(step.send, step.receive, step.count, step.type, op, step.peer, comm, stream);
    case NcclFunction::broadcast:
      return nccl.broadcast(step.send, step.receive, step.count, step.type, step.peer, comm, stream);
    case NcclFunction::all_gather:
      return nccl.all_gather(step.send, step.receive, step.count, step.type, comm, stream);
    case NcclFunction::reduce_scatter:
      return nccl.reduce_scatter(step.send, step.receive, step.count, step.type, op, comm, stream);
    case NcclFunction::send:
      return nccl.send(step.send, step.count, step.type, step.peer, comm, stream);
    case NcclFunction::receive:
      return nccl.receive(step.receive, step.count, step.type, step.peer, comm, stream);
  }
  return NcclResult::invalid_argument;
}

// Calls NCCL for the steps, as one group. Returns the first failure.
NcclResult carry_out(const NcclApi& nccl, NcclComm comm, std::span<const NcclStep> steps, CudaStreamHandle stream) {
  NcclResult result = NcclResult::success;
  std::vector<NcclOp> ops;  // one per step
  for (const NcclStep& step : steps) {
    NcclOp op = step.op;
    if (step.factor && !is_failure(result)) {
      Scalar scalar = scalar_of(*step.factor, step.type);
      result = nccl.create_premultiplied_sum(op, &scalar, step.type, kNcclHostImmediate, comm);
    }
    ops.push_back(op);
  }
  const bool is_group = steps.size() > 1 && !is_failure(result);
  if (is_group) result = nccl.group_start();
  for (std::size_t i = 0; i < steps.size() && !is_failure(result); ++i) {
    result = start_step(nccl, comm, steps[i], ops[i], stream);
  }
  // A started group must be ended, even if a step in it has failed.
  const NcclResult ended = is_group ? nccl.group_end() : NcclResult::success;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (ops[i] != steps[i].op) nccl.destroy_op(ops[i], comm);
  }
  return is_failure(result) ? result : is_failure(ended) ? ended : NcclResult::success;
}

// Keeps the handle until the process ends, because NCCL may still write to it.
void leave_to_nccl(std::shared_ptr<NcclComm> handle) {
  static std::mutex mutex;
  static auto* left = new std::vector<std::shared_ptr<NcclComm>>;
  const std::lock_guard lock(mutex);
  left->push_back(std::move(handle));
}

// Runs a call of NCCL on a separate thread, which may be left behind.
template <typename Function>
auto on_own_thread(const NcclMembers& members, Function function) {
  return base::on_side_thread([function = std::move(function), enter = members.enter] {
    if (enter) enter();
    return function();
  });
}

struct LaunchOrder {
  std::mutex mutex;
  std::condition_variable ended;
  bool is_taken = false;
};

LaunchOrder& order_of(int device) {
  static std::mutex mutex;
  static auto* orders = new std::map<int, LaunchOrder>;  // threads may be left behind at the end of the process
  const std::lock_guard lock(mutex);
  return (*orders)[device];
}

// NCCL demands that the launches of independent communicators on one GPU do not run at the same time on several
// threads. A thread has its turn from the call of an operation until that is on its stream. If another thread's turn
// lasts longer than a launch can take, this one begins all the same: a launch that waits for other ranks
// (CUDA_LAUNCH_BLOCKING=1) must not stop the operation that they wait for.
// See docs/development/decisions/0045-gpu-memory-and-launch-order.md.
class LaunchTurn {
 public:
  explicit LaunchTurn(int device) : order_(order_of(device)) {
    std::unique_lock lock(order_.mutex);
    is_own_ = order_.ended.wait_for(lock, limits::kLaunchOrder, [this] { return !order_.is_taken; });
    if (is_own_) order_.is_taken = true;
  }
  ~LaunchTurn() {
    if (!is_own_) return;
    {
      const std::lock_guard lock(order_.mutex);
      order_.is_taken = false;
    }
    order_.ended.notify_one();
  }
  LaunchTurn(const LaunchTurn&) = delete;
  LaunchTurn& operator=(const LaunchTurn&) = delete;

 private:
  LaunchOrder& order_;
  bool is_own_ = false;
};

}  // namespace

NcclCommunicator::NcclCommunicator(const NcclApi& nccl, const NcclMembers& members, const NcclUniqueId& id)
    : nccl_(nccl), members_(members) {
  // The thread of the call may outlive this object.
  const auto make = [nccl, made = made_, size = members.size, rank = members.rank, id] {
    return nccl.init(*made, size, id, rank, nccl.blocking);
  };
  const NcclResult result = call(make, Launch::connects, members_.timeout, kMakeAction, kNotArrived);
  blocks_ = nccl.environment_blocks().value_or(nccl.blocking);
  if (is_failure(result)) throw_failure(result, kMakeAction);
  finish_making();
}

NcclCommunicator::NcclCommunicator(const NcclApi& nccl, const NcclMembers& members, NcclCommunicator& parent, int color,
                                   int key)
    : nccl_(nccl), members_(members), blocks_(parent.blocks_.load()) {
  const std::lock_guard settled(parent.settling_);
  {
    const std::lock_guard lock(parent.mutex_);
    const auto make = [split = nccl.split, made = made_, comm = parent.handle(), color, key] {
      return split(comm, color, key, *made, nullptr);
    };
    const NcclResult result = parent.call(make, Launch::connects, members_.timeout, kSplitAction, kNotTaking);
    if (is_failure(result)) parent.throw_failure(result, kSplitAction);
  }
  finish_making(&parent);
}

void NcclCommunicator::stay_out_of_split() {
  const std::lock_guard settled(settling_);
  {
    const std::lock_guard lock(mutex_);
    const auto take_part = [split = nccl_.split, comm = handle()] {
      static NcclComm none = nullptr;
      return split(comm, kNcclNoColor, 0, none, nullptr);
    };
    const NcclResult result = call(take_part, Launch::connects, members_.timeout, kSplitAction, kNotTaking);
    if (is_failure(result)) throw_failure(result, kSplitAction);
  }
  settle(members_.timeout, kSplitAction, kNotTaking);
}

void NcclCommunicator::finish_making(NcclCommunicator* parent) {
  try {
    if (parent != nullptr) parent->settle(members_.timeout, kSplitAction, kNotTaking);
    settle(members_.timeout, kMakeAction, kNotArrived);
    being_made_ = false;
  } catch (const Error&) {
    abort();
    leave_to_nccl(std::move(made_));
    throw;
  }
}

template <typename Call>
NcclResult NcclCommunicator::call(Call function, Launch launch, std::chrono::milliseconds timeout, const char* action,
                                  const char* late) {
  if (!blocks_ || launch == Launch::known) return function();
  auto result = on_own_thread(members_, std::move(function));
  Polling polling(timeout, kConnectSpin);
  while (result.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    members_.check_members();
    if (!polling.pause()) throw late_nccl_error(action, late, timeout);
  }
  return result.get();
}

void NcclCommunicator::start(std::span<const NcclStep> steps, CudaStreamHandle stream,
                             std::chrono::milliseconds timeout, Launch launch) {
  const std::lock_guard settled(settling_);
  std::optional<LaunchTurn> turn;
  if (launch == Launch::known) turn.emplace(members_.device);
  {
    const std::lock_guard lock(mutex_);
    const NcclComm comm = handle();
    if (comm == nullptr) throw ended_communicator_error();
    NcclResult result = NcclResult::success;
    if (launch == Launch::known) {
      result = carry_out(nccl_, comm, steps, stream);
    } else {
      // The thread of the call may outlive this object.
      const auto function = [nccl = nccl_, comm, kept = std::vector(steps.begin(), steps.end()), stream] {
        return carry_out(nccl, comm, kept, stream);
      };
      result = call(function, launch, timeout, kStartAction, kNotTaking);
    }
    if (is_failure(result)) {
      if (*members_.aborted) throw aborted_error();
      throw_failure(result, kStartAction);
    }
  }
  settle(timeout, kStartAction, kNotTaking);
}

NcclComm NcclCommunicator::handle() const {
  return ended_ || !made_ ? nullptr : std::atomic_ref<NcclComm>(*made_).load(std::memory_order_acquire);
}

// An abort must end the calls of a blocking communicator, so it does not wait for them.
std::unique_lock<std::mutex> NcclCommunicator::lock_against_abort() {
  return blocks_ ? std::unique_lock<std::mutex>() : std::unique_lock(mutex_);
}

NcclResult NcclCommunicator::state() {
  const auto lock = lock_against_abort();
  const std::lock_guard ending(ending_mutex_);
  const NcclComm comm = handle();
  if (comm == nullptr) return being_made_ ? NcclResult::in_progress : NcclResult::invalid_usage;
  return nccl_.async_error(comm);
}

bool NcclCommunicator::settled() {
  members_.check_members();
  const NcclResult now = state();
  if (is_failure(now)) throw_failure(now, now == NcclResult::remote_error ? kConnectionLostText : kRunAction);
  return now == NcclResult::success;
}

void NcclCommunicator::settle(std::chrono::milliseconds timeout, const char* action, const char* late) {
  Polling polling(timeout, kConnectSpin);
  while (!settled()) {
    if (!polling.pause()) throw late_nccl_error(action, late, timeout);
  }
}

// The call in progress may wait for another rank, which waits for what this thread does next.
void* NcclCommunicator::register_buffer(void* memory, std::size_t bytes) {
  const std::unique_lock settled(settling_, std::try_to_lock);
  if (!settled) return nullptr;
  const std::lock_guard lock(mutex_);
  void* handle = nullptr;
  if (this->handle() == nullptr || !nccl_.register_buffer || bytes == 0) return nullptr;
  return is_failure(nccl_.register_buffer(this->handle(), memory, bytes, handle)) ? nullptr : handle;
}

bool NcclCommunicator::deregister_buffer(void* handle) {
  const std::unique_lock settled(settling_, std::try_to_lock);
  if (!settled) return false;
  const std::lock_guard lock(mutex_);
  if (this->handle() != nullptr && handle != nullptr) nccl_.deregister_buffer(this->handle(), handle);
  return true;
}

void NcclCommunicator::begin_closing() {
  const auto lock = lock_against_abort();
  const NcclComm comm = handle();
  if (comm == nullptr) return;
  if (!blocks_) {
    closing_ = nccl_.finalize(comm);
    return;
  }
  finalizing_ = on_own_thread(members_, [finalize = nccl_.finalize, comm] { return finalize(comm); });
}

void NcclCommunicator::finish_closing(std::chrono::steady_clock::time_point until) {
  if (finalizing_.valid()) {
    closing_ = finalizing_.wait_until(until) == std::future_status::ready ? finalizing_.get() : NcclResult::in_progress;
  }
  const auto lock = lock_against_abort();
  const NcclComm comm = handle();
  if (comm == nullptr) return;
  Polling polling(std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()), kConnectSpin);
  while (closing_ == NcclResult::in_progress && polling.pause()) closing_ = nccl_.async_error(comm);
  // If finalizing did not end, destroying would wait for the same thing without a limit.
  if (closing_ != NcclResult::success) StateGate::of_process().before_abort();
  end(closing_ == NcclResult::success ? nccl_.destroy : nccl_.abort);
}

void NcclCommunicator::abort() {
  if (handle() != nullptr) StateGate::of_process().before_abort();
  const auto lock = lock_against_abort();
  if (handle() != nullptr) end(nccl_.abort);
}

// Runs the function on a separate thread, which holds everything that it needs if it is left behind. Whatever the
// function returns, the communicator no longer exists afterwards.
void NcclCommunicator::end(const NcclLocalCall<NcclComm>& function) {
  const std::lock_guard ending(ending_mutex_);
  const NcclComm comm = handle();
  if (comm == nullptr) return;
  ended_ = true;
  try {
    ending_ = on_own_thread(members_, [function, comm] { function(comm); });
  } catch (const std::system_error&) {
    // If no thread can be started, the communicator is left as it is.
  }
}

bool NcclCommunicator::has_ended(std::chrono::steady_clock::time_point until) {
  std::shared_future<void> ending;
  {
    const std::lock_guard lock(ending_mutex_);
    ending = ending_;
  }
  return !ending.valid() || ending.wait_until(until) == std::future_status::ready;
}

NcclCommunicator::~NcclCommunicator() {
  abort();
}

void NcclCommunicator::throw_failure(NcclResult failure, const char* action) const {
  members_.wait_for_reason();
  const ErrorKind kind = failure == NcclResult::remote_error ? ErrorKind::peer_lost
                         : failure == NcclResult::timeout    ? ErrorKind::timeout
                                                             : ErrorKind::internal;
  throw nccl_error(kind, action, nccl_.error_string(failure), nccl_.last_error());
}

}  // namespace ddp::internal

#include "runtime/backend/nccl/nccl_communicator.h"

#include <ddp/data_type.h>
#include <ddp/error.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <future>
#include <map>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/side_thread.h"
#include "runtime/backend/backend_errors.h"
#include "runtime/backend/nccl/nccl_errors.h"
#include "runtime/backend/polling.h"
#include "runtime/limits.h"

namespace ddp::internal {
namespace {

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

constexpr std::chrono::seconds kStoreIsLate{1};  // normally the store answers within milliseconds

// Runs a request on a separate thread, while this thread checks for lost ranks. If the store has died with a rank, the
// request waits until the store's own timeout, so its thread is left behind. If the store fails, that error is reported
// only if no rank is lost. A lost rank would be the reason.
template <typename Request>
auto check_members_during(const NcclMembers& members, Request request) {
  auto result = base::on_side_thread(std::move(request));
  const auto begun = std::chrono::steady_clock::now();
  while (result.wait_for(limits::kStorePoll) != std::future_status::ready) {
    members.check_members();
    // The store is lost with the rank that serves it, which need not be a member.
    const bool is_late = std::chrono::steady_clock::now() - begun > kStoreIsLate;
    if (is_late && members.all_ranks) members.all_ranks->check();
  }
  try {
    return result.get();
  } catch (const Error&) {
    members.wait_for_reason();
    throw;
  }
}

// With this variable NCCL gives every communicator the same address, where a rank 0 listens. A group has several
// communicators, with different ranks, so they would find each other.
void refuse_common_address() {
  const char* address = std::getenv("NCCL_COMM_ID");  // NOLINT(concurrency-mt-unsafe)
  if (address != nullptr) throw common_address_error(address);
}

}  // namespace

NcclUniqueId agree_on_id(const NcclApi& nccl, const std::shared_ptr<Store>& store, const std::string& key,
                         const NcclMembers& members) {
  NcclUniqueId id{};
  const NcclResult result = members.rank == 0 ? nccl.get_unique_id(id) : NcclResult::success;
  // NCCL may have read the variable from its configuration file by now.
  refuse_common_address();
  if (members.rank == 0) {
    if (result != NcclResult::success) throw no_unique_id_error(nccl.error_string(result), nccl.last_error());
    check_members_during(members, [=] { store->set(key, std::string_view(id.data(), id.size())); });
    return id;
  }
  // The code polls, because a wait in the store could not check for lost ranks.
  const auto end = std::chrono::steady_clock::now() + members.timeout;
  while (!check_members_during(members, [=] { return store->check({&key, 1}); })) {
    members.check_members();
    if (std::chrono::steady_clock::now() > end) throw late_id_error(members.timeout);
    std::this_thread::sleep_for(limits::kStorePoll);
  }
  const std::string value = check_members_during(members, [=] { return store->get(key); });
  if (value.size() != id.size()) throw other_id_error(value.size(), id.size());
  std::copy(value.begin(), value.end(), id.begin());
  return id;
}

NcclCommunicator::NcclCommunicator(const NcclApi& nccl, const NcclMembers& members, const NcclUniqueId& id)
    : NcclHandle(nccl, members) {
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
    : NcclHandle(nccl, members, parent.blocks_) {
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
  auto result = on_own_thread(std::move(function));
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

}  // namespace ddp::internal

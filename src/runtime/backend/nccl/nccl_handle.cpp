#include "runtime/backend/nccl/nccl_handle.h"

#include <ddp/error.h>

#include <string>
#include <system_error>
#include <thread>

#include "runtime/backend/backend_errors.h"
#include "runtime/backend/nccl/nccl_errors.h"
#include "runtime/backend/polling.h"
#include "runtime/limits.h"
#include "runtime/progress/state_gate.h"

namespace ddp::internal {
namespace {

// A killed process with many threads takes a while to disappear.
constexpr std::chrono::milliseconds kReasonWait{100};

}  // namespace

void NcclMembers::check_members() const {
  if (*aborted) throw aborted_error();
  if (peers) peers->check();
}

void NcclMembers::wait_for_reason() const {
  const auto end = std::chrono::steady_clock::now() + kReasonWait;
  while (all_ranks && std::chrono::steady_clock::now() < end) {
    all_ranks->check();
    std::this_thread::sleep_for(limits::kPeerPoll);
  }
}

NcclComm NcclHandle::handle() const {
  return ended_ || !made_ ? nullptr : std::atomic_ref<NcclComm>(*made_).load(std::memory_order_acquire);
}

// An abort must end the calls of a blocking communicator, so it does not wait for them.
std::unique_lock<std::mutex> NcclHandle::lock_against_abort() {
  return blocks_ ? std::unique_lock<std::mutex>() : std::unique_lock(mutex_);
}

NcclResult NcclHandle::state() {
  const auto lock = lock_against_abort();
  const std::lock_guard ending(ending_mutex_);
  const NcclComm comm = handle();
  if (comm == nullptr) return being_made_ ? NcclResult::in_progress : NcclResult::invalid_usage;
  return nccl_.async_error(comm);
}

bool NcclHandle::settled() {
  members_.check_members();
  const NcclResult now = state();
  if (is_failure(now)) throw_failure(now, now == NcclResult::remote_error ? kConnectionLostText : kRunAction);
  return now == NcclResult::success;
}

void NcclHandle::begin_closing() {
  const auto lock = lock_against_abort();
  const NcclComm comm = handle();
  if (comm == nullptr) return;
  if (!blocks_) {
    closing_ = nccl_.finalize(comm);
    return;
  }
  finalizing_ = on_own_thread([finalize = nccl_.finalize, comm] { return finalize(comm); });
}

void NcclHandle::finish_closing(std::chrono::steady_clock::time_point until) {
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

void NcclHandle::abort() {
  if (handle() != nullptr) StateGate::of_process().before_abort();
  const auto lock = lock_against_abort();
  if (handle() != nullptr) end(nccl_.abort);
}

// Runs the function on a separate thread, which holds everything that it needs if it is left behind. Whatever the
// function returns, the communicator no longer exists afterwards.
void NcclHandle::end(const NcclLocalCall<NcclComm>& function) {
  const std::lock_guard ending(ending_mutex_);
  const NcclComm comm = handle();
  if (comm == nullptr) return;
  ended_ = true;
  try {
    ending_ = on_own_thread([function, comm] { function(comm); });
  } catch (const std::system_error&) {
    // If no thread can be started, the communicator is left as it is.
  }
}

bool NcclHandle::has_ended(std::chrono::steady_clock::time_point until) {
  std::shared_future<void> ending;
  {
    const std::lock_guard lock(ending_mutex_);
    ending = ending_;
  }
  return !ending.valid() || ending.wait_until(until) == std::future_status::ready;
}

void NcclHandle::throw_failure(NcclResult failure, const char* action) const {
  members_.wait_for_reason();
  const ErrorKind kind = failure == NcclResult::remote_error ? ErrorKind::peer_lost
                         : failure == NcclResult::timeout    ? ErrorKind::timeout
                                                             : ErrorKind::internal;
  throw nccl_error(kind, action, nccl_.error_string(failure), nccl_.last_error());
}

}  // namespace ddp::internal

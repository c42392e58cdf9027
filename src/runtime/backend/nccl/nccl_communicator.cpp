#include "runtime/backend/nccl/nccl_communicator.h"

#include <ddp/error.h>

#include <future>
#include <thread>

#include "base/text.h"
#include "runtime/backend/polling.h"

namespace ddp {
namespace {

// How long to look for a communicator's change of state without sleeping; these are no hot paths.
constexpr std::chrono::milliseconds kSpin{1};

// Runs a call of NCCL that can hang on a thread of its own. False if it is not over after `limit`; then the thread is
// left behind and holds what it needs. Whatever the call returns, the communicator is gone afterwards.
bool ends_within(std::chrono::milliseconds limit, std::function<NcclResult(NcclComm)> call, NcclComm comm) {
  std::packaged_task<void()> task([call = std::move(call), comm] { call(comm); });
  const std::future<void> done = task.get_future();
  std::thread thread(std::move(task));
  if (done.wait_for(limit) == std::future_status::ready) {
    thread.join();
    return true;
  }
  thread.detach();
  return false;
}

}  // namespace

NcclCommunicator::NcclCommunicator(const NcclApi& nccl, const BackendOptions& options, const NcclUniqueId& id,
                                   std::chrono::milliseconds closing_limit)
    : nccl_(nccl), closing_limit_(closing_limit) {
  const std::string deed = "rank " + std::to_string(options.rank) + " of " + std::to_string(options.size) +
                           " cannot make the NCCL communicator";
  try {
    const NcclResult result = nccl_.init_rank(comm_, options.size, id, options.rank);
    if (is_failure(result)) throw_failure(result, deed);
    const Polling polling(options.timeout, kSpin);
    while (true) {
      const NcclResult now = state();
      if (now == NcclResult::success) return;
      if (is_failure(now)) throw_failure(now, deed);
      if (!polling.pause()) {
        throw Error(ErrorKind::timeout, deed + ": another rank did not come within " +
                                            base::human_duration(options.timeout) +
                                            ". NCCL_DEBUG=INFO shows how far each rank got.");
      }
    }
  } catch (const Error&) {
    abort();
    throw;
  }
}

bool NcclCommunicator::close() {
  NcclResult result = nccl_.finalize(comm_);
  const Polling polling(closing_limit_, kSpin);
  while (result == NcclResult::in_progress && polling.pause()) result = state();
  // Finalizing did not end: destroying would wait for the same thing without a limit.
  if (result != NcclResult::success) return abort();
  return ends_within(closing_limit_, nccl_.destroy, comm_);
}

bool NcclCommunicator::abort() {
  // A communicator whose making failed at once does not exist.
  return comm_ == nullptr || ends_within(closing_limit_, nccl_.abort, comm_);
}

void NcclCommunicator::throw_failure(NcclResult failure, const std::string& deed) const {
  const ErrorKind kind = failure == NcclResult::remote_error ? ErrorKind::peer_lost : ErrorKind::internal;
  const std::string detail = nccl_.last_error(comm_);
  throw Error(kind, deed + " (NCCL: " + nccl_.error_string(failure) + (detail.empty() ? "" : "; " + detail) + ")");
}

}  // namespace ddp

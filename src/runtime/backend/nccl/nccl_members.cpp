#include "runtime/backend/nccl/nccl_members.h"

#include <ddp/error.h>

#include <algorithm>
#include <cstdlib>
#include <future>
#include <string_view>
#include <thread>
#include <utility>

#include "base/side_thread.h"
#include "runtime/backend/backend_errors.h"
#include "runtime/backend/nccl/nccl_errors.h"
#include "runtime/limits.h"

namespace ddp::internal {
namespace {

// A killed process with many threads takes a while to disappear.
constexpr std::chrono::milliseconds kReasonWait{100};
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

}  // namespace ddp::internal

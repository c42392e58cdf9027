#include "runtime/backend/nccl/nccl_api.h"

#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>
#include <type_traits>

#include "runtime/backend/nccl/nccl_errors.h"
#include "runtime/limits.h"

namespace ddp::internal {
namespace {

// The library takes and returns an ncclUniqueId by value. It has 128 bytes.
static_assert(sizeof(NcclUniqueId) == 128 && std::is_trivially_copyable_v<NcclUniqueId>);

void wait_until_none_runs(const std::atomic<int>& calls, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (calls > 0 && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(limits::kPeerPoll);
}

void end_calls_at_exit() {
  static const ::pid_t process = ::getpid();
  std::atexit([] {
    if (::getpid() != process) return;  // a forked child has no other threads
    NcclExit::has_begun = true;
    wait_until_none_runs(NcclExit::common_calls, limits::kNcclCommonExitWait);
    wait_until_none_runs(NcclExit::local_calls, limits::kNcclLocalExitWait);
  });
}

}  // namespace

NcclApi::NcclApi(const char* file) : SharedLibrary(file) {
  if (!obstacle_.empty()) {
    obstacle_ = no_nccl_text(file, obstacle_);
    return;
  }
  end_calls_at_exit();
  if (!release) allocate = {};
  if (!deregister_buffer) register_buffer = {};
  get_version(version);
  blocking = environment_blocks().value_or(true);
  if (version < kOldestNccl) obstacle_ = old_nccl_text(nccl_version_text(version), nccl_version_text(kOldestNccl));
}

NcclResult NcclApi::init(NcclComm& comm, int size, const NcclUniqueId& id, int rank, bool blocks) const {
  NcclConfig config;
  config.blocking = blocks ? 1 : 0;
  return init_rank(comm, size, id, rank, config);
}

NcclResult NcclApi::async_error(NcclComm comm) const {
  NcclResult state = NcclResult::success;
  const NcclResult result = get_async_error(comm, state);
  return result == NcclResult::success ? state : result;
}

std::string NcclApi::last_error() const {
  const char* text = get_last_error(nullptr);
  return text == nullptr ? "" : text;
}

// NCCL prefers this variable to the configuration of a communicator, and reads it as an integer in any notation of C.
// It puts the variables of nccl.conf into the environment.
std::optional<bool> NcclApi::environment_blocks() {
  const char* text = std::getenv("NCCL_COMM_BLOCKING");  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? std::nullopt : std::optional(std::strtoll(text, nullptr, 0) == 1);
}

std::string nccl_version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

const NcclApi& nccl_library() {
  // Threads of the backend may still use it while the process ends, so it is never destroyed.
  static const auto* library = new NcclApi("libnccl.so.2");
  return *library;
}

}  // namespace ddp::internal

#include <cstdlib>
#include <string_view>

#include "base/host_name.h"
#include "runtime/backend/backends.h"
#include "runtime/backend/nccl/cuda_api.h"
#include "runtime/backend/nccl/device_choice.h"
#include "runtime/backend/nccl/nccl_api.h"
#include "runtime/backend/nccl/nccl_backend.h"

namespace ddp::internal {

namespace {

bool is_one(const char* variable) {
  const char* value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe)
  return value != nullptr && std::string_view(value) == "1";
}

}  // namespace

ProbeResult probe_nccl(const BackendOptions& options) {
  // The driver is checked first, because without a GPU it does not matter whether NCCL exists.
  if (!cuda_library().obstacle().empty()) return {cuda_library().obstacle(), ""};
  const ProbeResult found =
      probe_device(options.local_rank, cuda_library(), base::host_name(), is_one("NCCL_MULTI_RANK_GPU_ENABLE"));
  if (!found.obstacle.empty()) return found;
  return nccl_library().obstacle().empty() ? found : ProbeResult{nccl_library().obstacle(), ""};
}

std::unique_ptr<Backend> make_nccl_backend(const BackendOptions& options, std::shared_ptr<Store> store) {
  static const std::shared_ptr<const GpuLibraries> libraries =
      std::make_shared<const GpuLibraries>(GpuLibraries{nccl_library(), cuda_library()});
  return std::make_unique<NcclBackend>(options, std::move(store), libraries);
}

}  // namespace ddp::internal

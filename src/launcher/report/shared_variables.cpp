#include "launcher/report/shared_variables.h"

#include <algorithm>
#include <array>

#include "base/secrets.h"

namespace ddp::launcher {
namespace {

constexpr std::array<std::string_view, 13> kPrefixes = {"CUDA_",    "DDP_",   "GLOO_",   "KMP_", "MASTER_",
                                                        "MKL_",     "NCCL_",  "NVIDIA_", "OMP_", "PET_",
                                                        "PYTORCH_", "SLURM_", "TORCH"};

}  // namespace

std::vector<std::string> shared_variables(std::span<const std::string> environment) {
  std::vector<std::string> shared;
  for (const std::string& line : environment) {
    const auto matters = [&](std::string_view prefix) { return line.starts_with(prefix); };
    if (line.find('=') == std::string::npos || std::ranges::none_of(kPrefixes, matters)) continue;
    shared.push_back(base::without_secrets(line));
  }
  std::ranges::sort(shared);
  return shared;
}

}  // namespace ddp::launcher

#include "launcher/see/report/shared_memory.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <string_view>

#include "base/text.h"

namespace ddp::launcher {
namespace {

// Docker and Kubernetes give a container 64 MiB. NCCL and data loaders need more, and less than this.
constexpr std::uint64_t kSmall = std::uint64_t{1} << 30;

// Each entry is a list of words that a line contains.
constexpr std::array<std::array<std::string_view, 2>, 5> kErrors{{
    {"out of shared memory", ""},        // PyTorch's data loader
    {"insufficient shared memory", ""},  // its worker
    {"shared memory", "No space left"},  // NCCL
    {"/dev/shm", "No space left"},
    {"/torch_", "No space left on device"}  // a tensor that PyTorch shares
}};

}  // namespace

std::optional<SharedMemory> read_shared_memory(const std::string& path) {
  struct statvfs status {};
  if (::statvfs(path.c_str(), &status) != 0) return std::nullopt;
  return SharedMemory{std::uint64_t{status.f_blocks} * status.f_frsize,
                      std::uint64_t{status.f_bavail} * status.f_frsize};
}

bool may_lack_shared_memory(const base::ExitStatus& status, const std::vector<std::string>& last_lines) {
  if (status.was_killed_by(SIGBUS)) return true;
  return std::ranges::any_of(last_lines, [](const std::string& line) {
    return std::ranges::any_of(kErrors, [&](const auto& words) {
      return std::ranges::all_of(words, [&](std::string_view word) { return line.find(word) != std::string::npos; });
    });
  });
}

std::string shared_memory_line(const SharedMemory& memory, const std::string& node) {
  const std::string size = "/dev/shm of " + node + " has " + base::human_bytes(memory.total) + ", of which " +
                           base::human_bytes(memory.free) + " are free now";
  if (memory.total >= kSmall && memory.free >= kSmall) {
    return size + "; a worker also gets SIGBUS if a file that it has mapped becomes shorter, or on a memory fault";
  }
  return size +
         ". A worker that needs more shared memory gets SIGBUS. Enlarge it (docker run --shm-size=8g, or mount "
         "-o remount,size=8g /dev/shm)";
}

}  // namespace ddp::launcher

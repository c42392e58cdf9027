#include "launcher/facts/resource_limits.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "base/text.h"
#include "launcher/limits.h"

namespace ddp::launcher {
namespace {

rlimit limit_of(__rlimit_resource_t resource) {
  rlimit value{};
  ::getrlimit(resource, &value);
  return value;
}

std::uint64_t number(rlim_t value) {
  return value == RLIM_INFINITY ? ResourceLimits::kUnlimited : value;
}

// Without room for one more to count them by, as many as the limit allows.
std::uint64_t count_open_descriptors(std::uint64_t limit) {
  std::error_code error;
  const std::filesystem::directory_iterator descriptors("/proc/self/fd", error);
  if (error) return error == std::errc::too_many_files_open ? limit : 0;
  constexpr std::ptrdiff_t kOwn = 4;  // standard input, output, error, and the directory's
  return static_cast<std::uint64_t>(
      std::max<std::ptrdiff_t>(std::distance(begin(descriptors), end(descriptors)) - kOwn, 0));
}

}  // namespace

ResourceLimits read_resource_limits() {
  ResourceLimits limits;
  limits.descriptors = number(limit_of(RLIMIT_NOFILE).rlim_max);
  limits.open_descriptors = count_open_descriptors(limits.descriptors);
  limits.locked_memory = number(limit_of(RLIMIT_MEMLOCK).rlim_cur);
  limits.stack = number(limit_of(RLIMIT_STACK).rlim_cur);
  std::error_code ignored;
  const std::filesystem::directory_iterator devices("/sys/class/infiniband", ignored);
  limits.has_rdma = !ignored && devices != std::filesystem::directory_iterator();
  return limits;
}

std::optional<std::string> descriptor_shortage(const ResourceLimits& limits, std::uint64_t needed,
                                               const std::string& purpose) {
  const std::uint64_t open = limits.open_descriptors;
  if (limits.descriptors >= needed + open) return std::nullopt;
  return "the system allows only " + std::to_string(limits.descriptors) + " file descriptors (ulimit -Hn), but " +
         purpose + " may need " + std::to_string(needed) +
         (open > 0 ? ", and " + std::to_string(open) + " are open already" : "") +
         ". Raise the limit, for example with ulimit -n " +
         std::to_string(std::max<std::uint64_t>(needed + open, limits::kFewDescriptors)) + ".";
}

std::vector<std::string> limit_notes(const ResourceLimits& limits, int gpus) {
  std::vector<std::string> notes;
  if (limits.descriptors < limits::kFewDescriptors) {
    notes.push_back("only " + std::to_string(limits.descriptors) +
                    " file descriptors are allowed (ulimit -Hn); data loaders and NCCL want thousands");
  }
  if (limits.has_rdma && limits.locked_memory != ResourceLimits::kUnlimited) {
    notes.push_back("only " + base::human_bytes(limits.locked_memory) +
                    " may be locked in memory (ulimit -l), but there is an RDMA device: NCCL may fail to register its "
                    "buffers. Use ulimit -l unlimited");
  }
  if (gpus > 0 && limits.stack == ResourceLimits::kUnlimited) {
    notes.emplace_back(
        "the stack is unlimited (ulimit -s): threads then get small ones, in which NCCL before 2.28 may "
        "crash. Use ulimit -s 8192");
  }
  return notes;
}

}  // namespace ddp::launcher

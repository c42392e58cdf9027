#include "launcher/start/facts/memory_room.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/file.h"
#include "base/text.h"
#include "launcher/start/facts/cgroups.h"

namespace ddp::launcher {
namespace {

std::optional<std::uint64_t> number_in(std::string_view text) {
  const auto number = base::parse_integer(text.substr(0, text.find_first_of(" \n")), 0, std::int64_t{1} << 60);
  return number ? std::optional(static_cast<std::uint64_t>(*number)) : std::nullopt;
}

// Returns the number after a word at the beginning of a line, or 0.
std::uint64_t number_after(const std::string& text, const std::string& word) {
  for (std::string_view line : base::split(text, '\n')) {
    if (!line.starts_with(word)) continue;
    line.remove_prefix(std::min(line.find_first_not_of(' ', word.size()), line.size()));
    return number_in(line).value_or(0);
  }
  return 0;
}

}  // namespace

std::uint64_t memory_room(const std::string& root) {
  std::uint64_t room = 1024 * number_after(base::read_file(root + "/proc/meminfo"), "MemAvailable:");
  for (const Cgroup& cgroup : own_cgroups_with("memory", root)) {
    const auto read = [&](const char* name, const char* name_in_version_1) {
      const auto number = number_in(base::read_file(root + cgroup.folder + name));
      return number ? number : number_in(base::read_file(root + cgroup.folder + name_in_version_1));
    };
    const auto limit = read("/memory.max", "/memory.limit_in_bytes");
    const auto used = read("/memory.current", "/memory.usage_in_bytes");
    if (!limit || !used) continue;
    // The kernel gives up pages of files before it kills a process.
    const std::string statistics = base::read_file(root + cgroup.folder + "/memory.stat");
    const std::uint64_t files = number_after(statistics, "inactive_file") + number_after(statistics, "active_file");
    const std::uint64_t kept = *used - std::min(*used, files);
    room = std::min(room, *limit - std::min(*limit, kept));
  }
  return room;
}

}  // namespace ddp::launcher

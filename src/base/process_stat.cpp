#include "base/process_stat.h"

#include <array>
#include <charconv>
#include <string>

#include "base/file.h"

namespace ddp::base {

std::optional<ProcessStat> parse_process_stat(std::string_view text) {
  // The name may contain anything, spaces and brackets, too.
  const std::size_t name = text.find('(');
  const std::size_t name_end = text.rfind(") ");
  if (name == std::string_view::npos || name_end == std::string_view::npos || name_end < name ||
      name_end + 4 > text.size() || text[name_end + 3] != ' ')
    return std::nullopt;
  ProcessStat stat;
  stat.name = text.substr(name + 1, name_end - name - 1);
  stat.state = text[name_end + 2];
  constexpr std::size_t kLast = 24;
  constexpr std::size_t kExitCode = 52;
  std::array<std::int64_t, kExitCode + 1> field{};  // numbered as in proc(5)
  std::size_t read = 3;
  const char* at = text.data() + name_end + 4;
  const char* const end = text.data() + text.size();
  while (read < kExitCode && at < end) {
    const auto [after, error] = std::from_chars(at, end, field[read + 1]);
    if (error == std::errc::invalid_argument) break;  // a number that is too large is one of those that are not used
    ++read;
    at = after < end && *after == ' ' ? after + 1 : end;
  }
  if (read < kLast) return std::nullopt;
  const auto number = [&](std::size_t index) { return static_cast<std::uint64_t>(field[index]); };
  stat.parent = static_cast<pid_t>(field[4]);
  stat.group = static_cast<pid_t>(field[5]);
  stat.terminal = field[7];
  stat.foreground = static_cast<pid_t>(field[8]);
  stat.minor_faults = number(10);
  stat.minor_faults_of_children = number(11);
  stat.major_faults = number(12);
  stat.major_faults_of_children = number(13);
  stat.cpu_ticks = number(14) + number(15);
  stat.cpu_ticks_of_children = number(16) + number(17);
  stat.started = number(22);
  stat.rss_pages = number(24);
  if (read == kExitCode) stat.wait_status = static_cast<int>(field[kExitCode]);
  return stat;
}

std::optional<ProcessStat> read_process_stat(const std::string& folder) {
  return parse_process_stat(read_file(folder + "/stat"));
}

std::optional<ProcessStat> read_process_stat(pid_t pid) {
  return read_process_stat("/proc/" + std::to_string(pid));
}

}  // namespace ddp::base

#include "launcher/process/process_look.h"

#include <cstdlib>
#include <vector>

#include "base/file.h"
#include "base/text.h"

namespace ddp::launcher {

std::optional<ProcessLook> parse_process_stat(std::string_view stat) {
  const std::size_t name_end = stat.rfind(") ");
  if (name_end == std::string_view::npos) return std::nullopt;
  const std::vector<std::string> fields = base::split(std::string(stat.substr(name_end + 2)), ' ');
  constexpr std::size_t kUserTicks = 11;  // of those after the name
  if (fields.size() <= kUserTicks + 1 || fields[0].size() != 1) return std::nullopt;
  ProcessLook look;
  look.state = fields[0][0];
  for (const std::size_t field : {kUserTicks, kUserTicks + 1}) {
    const auto ticks = base::parse_integer(fields[field], 0, std::int64_t{1} << 62);
    if (!ticks) return std::nullopt;
    look.cpu_ticks += static_cast<std::uint64_t>(*ticks);
  }
  return look;
}

std::optional<ProcessLook> look_at_process(pid_t pid, bool with_waits) {
  const std::string folder = "/proc/" + std::to_string(pid);
  auto look = parse_process_stat(base::read_file(folder + "/stat"));
  if (!look || !with_waits) return look;
  constexpr std::string_view kWaits = "\nvoluntary_ctxt_switches:\t";
  const std::string status = base::read_file(folder + "/status");
  if (const std::size_t at = status.find(kWaits); at != std::string::npos) {
    look->waits = std::strtoull(status.c_str() + at + kWaits.size(), nullptr, 10);
  }
  const std::string function = base::read_file(folder + "/wchan");
  if (function != "0") look->waits_in = function;  // it runs, or we may not know
  return look;
}

}  // namespace ddp::launcher

#include "launcher/facts/standard_input.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/file.h"
#include "base/text.h"

namespace ddp::launcher {

StandardInput standard_input(pid_t member) {
  if (::isatty(STDIN_FILENO) == 0) return StandardInput::other;
  unsigned terminal = 0;
  const bool is_known = ::ioctl(STDIN_FILENO, TIOCGDEV, &terminal) == 0;
  const bool background =
      is_known && is_background(base::read_line("/proc/" + std::to_string(member) + "/stat"), terminal);
  return background ? StandardInput::background_terminal : StandardInput::terminal;
}

bool is_background(const std::string& stat, unsigned terminal) {
  constexpr std::size_t kGroup = 2;  // fields after the name of the program, which may contain spaces
  constexpr std::size_t kTerminal = 4;
  constexpr std::size_t kForeground = 5;
  const std::vector<std::string> fields = base::words(stat.substr(std::min(stat.size(), stat.rfind(')') + 1)));
  return fields.size() > kForeground && fields[kTerminal] == std::to_string(static_cast<int>(terminal)) &&
         fields[kForeground] != fields[kGroup] && fields[kForeground] != "-1";
}

}  // namespace ddp::launcher

#include "launcher/start/facts/standard_input.h"

#include <sys/ioctl.h>
#include <unistd.h>

namespace ddp::launcher {

StandardInput standard_input(pid_t member) {
  if (::isatty(STDIN_FILENO) == 0) return StandardInput::other;
  unsigned terminal = 0;
  const bool is_known = ::ioctl(STDIN_FILENO, TIOCGDEV, &terminal) == 0;
  const auto stat = base::read_process_stat(member);
  const bool background = is_known && stat && is_background(*stat, terminal);
  return background ? StandardInput::background_terminal : StandardInput::terminal;
}

bool is_background(const base::ProcessStat& process, unsigned terminal) {
  return process.terminal == static_cast<int>(terminal) && process.foreground >= 0 &&
         process.foreground != process.group;
}

}  // namespace ddp::launcher

#include "launcher/see/top/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigaction is POSIX
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <string>
#include <string_view>

#include "base/signals.h"
#include "base/uninterrupted.h"

namespace ddp::launcher {
namespace {

// The alternate screen without a cursor. Lines that fill a row do not wrap.
constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
// CAN ends a sequence that was written in part.
constexpr std::string_view kLeave = "\x18\x1b[?2026l\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";
constexpr std::chrono::milliseconds kPatience{500};  // a terminal that takes nothing for longer is left as it is

// A handler of a signal can only reach variables like these.
int restored_fd = -1;
termios restored_attributes;

void write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
      continue;
    }
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno != EAGAIN) return;
    if (base::poll_until(fd, POLLOUT, std::chrono::steady_clock::now() + kPatience) <= 0) return;
  }
}

// Does only what a handler may do.
void restore(int fd, const termios& attributes) {
  write_all(fd, kLeave);
  ::tcsetattr(fd, TCSANOW, &attributes);
}

void restore_after_fault(int signal) {
  if (restored_fd >= 0) restore(restored_fd, restored_attributes);
  ::raise(signal);  // its action is the default again
}

void catch_faults(void (*handler)(int)) {
  for (const int signal : base::kFaults) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_NODEFER;
    ::sigaction(signal, &action, nullptr);
  }
}

// Opens the terminal once more, so that a change of the descriptor's flags does not concern other processes.
base::UniqueFd open_terminal() {
  std::array<char, 256> name{};
  if (::ttyname_r(STDOUT_FILENO, name.data(), name.size()) != 0) name[0] = '\0';
  for (const char* path : {static_cast<const char*>(name.data()), "/dev/tty", "/proc/self/fd/1"}) {
    base::UniqueFd fd(::open(path, O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (fd && ::isatty(fd.get()) == 1) return fd;
  }
  return {};
}

}  // namespace

base::Result<std::unique_ptr<Terminal>> Terminal::open() {
  if (::isatty(STDOUT_FILENO) != 1) return base::Failure{"the standard output is no terminal. Add --once."};
  base::UniqueFd fd = open_terminal();
  termios before{};
  if (!fd || ::tcgetattr(fd.get(), &before) != 0) {
    return base::Failure{std::string("the terminal cannot be opened (") + std::strerror(errno) + "). Add --once."};
  }
  std::unique_ptr<Terminal> terminal(new Terminal(std::move(fd), before));
  restored_attributes = before;
  restored_fd = terminal->fd();
  catch_faults(&restore_after_fault);
  terminal->take();
  return terminal;
}

Terminal::~Terminal() {
  leave();
  restored_fd = -1;
  catch_faults(SIG_DFL);
}

void Terminal::take() {
  termios raw = before_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | IEXTEN);
  raw.c_iflag &= ~static_cast<tcflag_t>(IXON | ICRNL);
  raw.c_cc[VMIN] = 1;
  raw.c_cc[VTIME] = 0;
  ::tcsetattr(fd_.get(), TCSANOW, &raw);
  write_all(fd_.get(), kEnter);
}

void Terminal::leave() {
  restore(fd_.get(), before_);
}

FrameSize Terminal::size() const {
  constexpr int kMost = 1000;
  winsize window{};
  if (::ioctl(fd_.get(), TIOCGWINSZ, &window) != 0 || window.ws_col == 0 || window.ws_row == 0) return {};
  return {std::min<int>(window.ws_col, kMost), std::min<int>(window.ws_row, kMost)};
}

void Terminal::suspend() {
  leave();
  ::raise(SIGSTOP);
}

}  // namespace ddp::launcher

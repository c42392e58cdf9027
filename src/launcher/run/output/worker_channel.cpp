#include "launcher/run/output/worker_channel.h"

#include <fcntl.h>
#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): the functions on terminals are POSIX
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "launcher/run/output/output_texts.h"

namespace ddp::launcher {
namespace {

constexpr std::size_t kDefaultPipeBytes = std::size_t{64} << 10;

void set_nonblocking(int fd) {
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
}

// Returns a channel without `ours` if no terminal is available.
WorkerChannel open_terminal(int like, std::size_t tag_columns) {
  base::UniqueFd master(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  std::array<char, 64> name{};
  if (!master || ::grantpt(master.get()) != 0 || ::unlockpt(master.get()) != 0 ||
      ::ptsname_r(master.get(), name.data(), name.size()) != 0) {
    return {};
  }
  base::UniqueFd slave(::open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC));
  termios mode{};
  if (!slave || ::tcgetattr(slave.get(), &mode) != 0) return {};
  // Every byte is passed on as it is written: only the real terminal turns "\n" into "\r\n".
  ::cfmakeraw(&mode);
  if (::tcsetattr(slave.get(), TCSANOW, &mode) != 0) return {};
  copy_terminal_size(like, slave.get(), tag_columns);
  set_nonblocking(master.get());
  return {std::move(master), std::move(slave), true};
}

}  // namespace

void copy_terminal_size(int like, int terminal, std::size_t tag_columns) {
  winsize size{};
  if (::ioctl(like, TIOCGWINSZ, &size) != 0) return;
  if (size.ws_col > 2 * tag_columns) size.ws_col = static_cast<unsigned short>(size.ws_col - tag_columns);
  ::ioctl(terminal, TIOCSWINSZ, &size);
}

base::Result<WorkerChannel> open_worker_channel(int like, std::size_t pipe_bytes, std::size_t tag_columns) {
  if (::isatty(like) == 1) {
    WorkerChannel terminal = open_terminal(like, tag_columns);
    if (terminal.ours) return terminal;
  }
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return base::Failure{no_pipe_text(std::strerror(errno))};
  WorkerChannel channel{base::UniqueFd(ends[0]), base::UniqueFd(ends[1]), false};
  set_nonblocking(channel.ours.get());
  if (pipe_bytes > kDefaultPipeBytes) ::fcntl(channel.ours.get(), F_SETPIPE_SZ, static_cast<int>(pipe_bytes));
  return channel;
}

}  // namespace ddp::launcher

#include "launcher/run/output/worker_channel.h"

#include <fcntl.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>

#include "launcher/run/output/log_file.h"
#include "support/catch.h"

using namespace ddp::launcher;
using ddp::base::UniqueFd;

namespace {

// Provides a terminal as the launcher's console.
class Terminal {
 public:
  Terminal() {
    int master = -1;
    int slave = -1;
    const winsize size{33, 77, 0, 0};
    REQUIRE(::openpty(&master, &slave, nullptr, nullptr, &size) == 0);
    master_.reset(master);
    slave_.reset(slave);
  }
  int fd() const { return slave_.get(); }

 private:
  UniqueFd master_;
  UniqueFd slave_;
};

std::string read_all(int fd) {
  std::string text;
  std::array<char, 256> bytes{};
  for (ssize_t got = 1; got > 0;) {
    got = ::read(fd, bytes.data(), bytes.size());
    if (got > 0) text.append(bytes.data(), static_cast<std::size_t>(got));
  }
  return text;
}

}  // namespace

TEST_CASE("the worker's end of a pipe blocks, the launcher's does not, and no child inherits either") {
  auto channel = open_worker_channel(-1, std::size_t{1} << 20);
  REQUIRE(channel.ok());
  const WorkerChannel& ends = channel.value();
  CHECK_FALSE(ends.terminal);
  CHECK((::fcntl(ends.ours.get(), F_GETFL) & O_NONBLOCK) != 0);
  CHECK((::fcntl(ends.theirs.get(), F_GETFL) & O_NONBLOCK) == 0);
  CHECK((::fcntl(ends.ours.get(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK((::fcntl(ends.theirs.get(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK(::fcntl(ends.ours.get(), F_GETPIPE_SZ) >= 65536);
}

TEST_CASE("a worker's terminal is narrower by the width of the tag") {
  const Terminal console;
  auto channel = open_worker_channel(console.fd(), 0, 4);
  REQUIRE(channel.ok());
  winsize size{};
  REQUIRE(::ioctl(channel.value().theirs.get(), TIOCGWINSZ, &size) == 0);
  CHECK(size.ws_col == 73);
  copy_terminal_size(console.fd(), channel.value().theirs.get(), 60);  // the width that is left would be too small
  REQUIRE(::ioctl(channel.value().theirs.get(), TIOCGWINSZ, &size) == 0);
  CHECK(size.ws_col == 77);
}

TEST_CASE("a worker's terminal has the size of the launcher's, and its bytes pass unchanged") {
  const Terminal console;
  auto channel = open_worker_channel(console.fd(), 0);
  REQUIRE(channel.ok());
  WorkerChannel& ends = channel.value();
  REQUIRE(ends.terminal);
  CHECK(::isatty(ends.theirs.get()) == 1);
  winsize size{};
  REQUIRE(::ioctl(ends.theirs.get(), TIOCGWINSZ, &size) == 0);
  CHECK(size.ws_row == 33);
  CHECK(size.ws_col == 77);
  const std::string bytes("a\n\t\r\x03\x04\0z", 8);
  REQUIRE(::write(ends.theirs.get(), bytes.data(), bytes.size()) == 8);
  CHECK(read_all(ends.ours.get()) == bytes);
  CHECK(errno == EAGAIN);
  ends.theirs.reset();
  CHECK(read_all(ends.ours.get()).empty());
  CHECK(errno == EIO);
}

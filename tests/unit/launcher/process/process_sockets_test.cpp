#include "launcher/process/process_sockets.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "base/unique_fd.h"
#include "support/catch.h"

using namespace ddp;
using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

std::chrono::steady_clock::time_point in_a_while() {
  return std::chrono::steady_clock::now() + 20s;
}

std::uint64_t inode_of(int fd) {
  struct stat status {};
  REQUIRE(::fstat(fd, &status) == 0);
  return status.st_ino;
}

bool holds(const std::vector<HeldSocket>& sockets, std::uint64_t inode, pid_t holder) {
  return std::ranges::find(sockets, HeldSocket{inode, holder}) != sockets.end();
}

}  // namespace

TEST_CASE("the sockets of a process and of its children are found, and nothing else that they hold") {
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0);
  const base::UniqueFd kept(ends[0]);
  base::UniqueFd given(ends[1]);
  std::array<int, 2> pipe{};
  REQUIRE(::pipe(pipe.data()) == 0);
  const base::UniqueFd out(pipe[0]);
  const base::UniqueFd in(pipe[1]);
  const std::uint64_t inode = inode_of(given.get());
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  given.reset();
  const auto sockets = sockets_of(::getpid(), in_a_while());
  CHECK(holds(sockets, inode_of(kept.get()), ::getpid()));
  CHECK(holds(sockets, inode, child));
  CHECK_FALSE(holds(sockets, inode, ::getpid()));
  CHECK_FALSE(holds(sockets, inode_of(out.get()), ::getpid()));
  CHECK(holds(sockets_of(child, in_a_while()), inode, child));
  CHECK(sockets_of(::getpid(), {}).empty());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK(sockets_of(child, in_a_while()).empty());
}

TEST_CASE("a link to a socket names its inode") {
  CHECK(socket_of_link("socket:[4711]") == 4711);
  for (const char* link :
       {"", "socket:", "socket:[", "socket:[]", "socket:[-1]", "socket:[1", "pipe:[4711]", "/dev/null"}) {
    INFO(link);
    CHECK_FALSE(socket_of_link(link));
  }
}

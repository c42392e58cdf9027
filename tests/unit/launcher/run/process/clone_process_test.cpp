#include "launcher/run/process/clone_process.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/unique_fd.h"
#include "launcher/run/process/worker_cgroup.h"
#include "support/catch.h"

using namespace ddp::launcher;

namespace {

constexpr std::size_t kStackBytes = 65'536;

struct Note {
  char groups[4096] = {};
};

// Runs in the child, in the parent's memory, so it makes only bare system calls.
int note_own_cgroup(void* argument) {
  const int file = ::open("/proc/self/cgroup", O_RDONLY);
  auto* note = static_cast<Note*>(argument);
  const ssize_t size = ::read(file, note->groups, sizeof note->groups - 1);
  ::close(file);
  ::_exit(size > 0 ? 7 : 1);
}

class Stack {
 public:
  Stack()
      : memory(::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0)) {}
  ~Stack() { ::munmap(memory, kStackBytes); }
  void* memory;
};

}  // namespace

TEST_CASE("a process is created inside a cgroup and has a pidfd") {
  WorkerCgroup cgroup;
  if (!cgroup.make()) {
    WARN("no writable cgroup of version 2 here: nothing to test");
    return;
  }
  const Stack stack;
  Note note;
  int descriptor = -1;
  const pid_t pid =
      clone_into_cgroup(note_own_cgroup, &note, stack.memory, kStackBytes, cgroup.folder_fd(), &descriptor);
  if (pid < 0 && (errno == ENOSYS || errno == EPERM)) {
    WARN("clone3() cannot be called here: nothing to test");
    return;
  }
  REQUIRE(pid > 0);
  const ddp::base::UniqueFd pidfd(descriptor);
  CHECK(pidfd);
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
  const std::string name = cgroup.path().substr(cgroup.path().rfind('/') + 1);
  CHECK(std::string(note.groups).find(name) != std::string::npos);
}

TEST_CASE("a process that cannot be created inside a cgroup is not created") {
  const Stack stack;
  Note note;
  int pidfd = -1;
  CHECK(clone_into_cgroup(note_own_cgroup, &note, stack.memory, kStackBytes, 1 << 20, &pidfd) == -1);
  CHECK(errno != 0);
  CHECK(note.groups[0] == '\0');
}

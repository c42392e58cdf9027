// Starts N processes and waits for them, with as little work as possible. Launchers are measured against it.
//
//   bare_spawn N PROGRAM [ARGUMENT ...]
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  for (int left = std::atoi(argv[1]); left > 0; --left) {
    pid_t pid = 0;
    if (::posix_spawn(&pid, argv[2], nullptr, nullptr, argv + 2, environ) != 0) return 1;
  }
  int worst = 0;
  int status = 0;
  while (::waitpid(-1, &status, 0) > 0) {
    if (status != 0) worst = 1;
  }
  return errno == ECHILD ? worst : 1;
}

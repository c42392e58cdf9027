// These programs in C++ do not use the runtime, so the launcher sees only their processes.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "zoo/zoo.h"

namespace zoo {

std::map<std::string, std::function<void(int rank)>> plain() {
  return {
      {"plain_sleeps", [](int) { sleep_for(kBusySeconds); }},
      {"plain_computes", [](int rank) { rank == 1 ? compute_for(kBusySeconds) : sleep_for(kBusySeconds); }},
      {"plain_waits_for_children", [](int) { wait_for(in_child([] { compute_for(kIdleSeconds); })); }},
      {"plain_waits_for_a_lock",
       [](int rank) {
         const int file = ::open("plain_lock", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
         if (rank != 0) sleep_for(0.5);
         ::flock(file, LOCK_EX);
         sleep_for(kIdleSeconds);
         ::flock(file, LOCK_UN);
       }},
      {"plain_ends_at_other_times", [](int rank) { sleep_for(rank * kIdleSeconds); }},
  };
}

}  // namespace zoo

// Runs one task as a worker, for tests/bench/launch_bench.py.
//
//   bench_worker wait READY HOLD   writes its pid to the named pipe READY, and ends when the pipe HOLD has no writer
//   bench_worker fail READY STAMP  rank 0 waits until the others are ready, writes the monotonic time in nanoseconds
//                                  to the file STAMP and exits with 3; the others sleep and leave SIGTERM to its
//                                  default
//   bench_worker lines N           writes N lines of about 40 bytes
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

#include "bench/line_writer.h"

namespace {

// Returns the variable that ddplaunch and torchrun set, or else the one that Open MPI sets, or 0 if there is neither.
int variable(const char* name, const char* name_of_mpi) {
  const char* value = std::getenv(name);
  if (value == nullptr) value = std::getenv(name_of_mpi);
  return value == nullptr ? 0 : std::atoi(value);
}

// Writes the number in one write(), so that the messages of several workers do not mix.
bool tell(int fd, std::int64_t number) {
  const std::string text = std::to_string(number) + "\n";
  return ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

int wait_for_end(const char* ready, const char* hold) {
  const int ready_fd = ::open(ready, O_WRONLY);
  const int hold_fd = ::open(hold, O_RDONLY);
  char byte = 0;
  if (ready_fd < 0 || hold_fd < 0 || !tell(ready_fd, ::getpid())) return 1;
  return ::read(hold_fd, &byte, 1) == 0 ? 0 : 1;
}

int fail_or_sleep(int rank, int workers, const char* ready, const char* stamp) {
  const int ready_fd = ::open(ready, O_RDWR);
  char byte = '.';
  if (ready_fd < 0) return 1;
  if (rank != 0) {
    if (::write(ready_fd, &byte, 1) != 1) return 1;
    while (true) ::pause();
  }
  for (int i = 1; i < workers; ++i) {
    if (::read(ready_fd, &byte, 1) != 1) return 1;
  }
  const int stamp_fd = ::open(stamp, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  if (stamp_fd < 0 || !tell(stamp_fd, std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec)) return 1;
  ::_exit(3);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string action = argc > 1 ? argv[1] : "";
  const int rank = variable("RANK", "OMPI_COMM_WORLD_RANK");
  if (action == "wait" && argc == 4) return wait_for_end(argv[2], argv[3]);
  if (action == "fail" && argc == 4) {
    return fail_or_sleep(rank, variable("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"), argv[2], argv[3]);
  }
  if (action == "lines" && argc == 3) return ddp::bench::write_lines(rank, std::atoi(argv[2]), false) ? 0 : 1;
  std::fprintf(stderr, "bench_worker: see the head of tests/bench/bench_worker.cpp\n");
  return 2;
}

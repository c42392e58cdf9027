#include "launcher/see/report/shared_memory.h"

#include <csignal>

#include "support/catch.h"

using namespace ddp::launcher;
using ddp::base::ExitStatus;

TEST_CASE("a lack of shared memory is recognised by the signal or the error") {
  const ExitStatus failed = ExitStatus::exited(1);
  CHECK(may_lack_shared_memory(ExitStatus::killed(SIGBUS, false), {}));
  CHECK_FALSE(may_lack_shared_memory(ExitStatus::killed(SIGSEGV, false), {}));
  for (const std::string line :
       {"RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that dataloader's "
        "workers are out of shared memory. Please try to raise your shared memory limit.",
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).",
        "RuntimeError: unable to write to file </torch_7_1>: No space left on device (28)",
        "misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-abc to 9637892 bytes, error: No space "
        "left "
        "on device (28)",
        "NCCL WARN Error while creating shared memory segment nccl-shm (size 9637888): No space left on device"}) {
    CAPTURE(line);
    CHECK(may_lack_shared_memory(failed, {"first", line}));
  }
  for (const std::string line : {"OSError: [Errno 28] No space left on device: 'out.pt'", "uses shared memory", ""}) {
    CAPTURE(line);
    CHECK_FALSE(may_lack_shared_memory(failed, {line}));
  }
}

TEST_CASE("a small /dev/shm is reported with its size and a remedy") {
  constexpr std::uint64_t mib = 1 << 20;
  CHECK(shared_memory_line({64 * mib, 60 * mib}, "a") ==
        "/dev/shm of a has 64 MiB, of which 60 MiB are free now. A worker that needs more shared memory gets SIGBUS. "
        "Enlarge it (docker run --shm-size=8g, or mount -o remount,size=8g /dev/shm)");
  CHECK_THAT(shared_memory_line({8192 * mib, 9 * mib}, "a"), Catch::Contains("--shm-size"));
  const std::string large = shared_memory_line({8192 * mib, 8000 * mib}, "a");
  CHECK_THAT(large, !Catch::Contains("--shm-size") && Catch::Contains("becomes shorter"));
}

TEST_CASE("the size of a file system is read") {
  CHECK(read_shared_memory("/proc/self").has_value());
  CHECK_FALSE(read_shared_memory("/no/such/folder").has_value());
}

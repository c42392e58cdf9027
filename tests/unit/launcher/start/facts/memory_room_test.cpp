#include "launcher/start/facts/memory_room.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "support/catch.h"
#include "support/temporary_directory.h"

using ddp::launcher::memory_room;

namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

class System {
 public:
  System() {
    write("/proc/meminfo", "MemTotal:       2048000 kB\nMemFree:  1 kB\nMemAvailable:   1024000 kB\n");
    write("/proc/self/cgroup", "0::/job\n");
    write("/proc/self/mountinfo", "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  }

  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path whole = root() + path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
  }
  std::string root() const { return directory_.path(); }

 private:
  TemporaryDirectory directory_;
};

}  // namespace

TEST_CASE("without limits the memory room is what the kernel reports as available") {
  System system;
  CHECK(memory_room(system.root()) == 1000 * kMiB);
  system.write("/sys/fs/cgroup/job/memory.max", "max\n");
  system.write("/sys/fs/cgroup/job/memory.current", "12345\n");
  CHECK(memory_room(system.root()) == 1000 * kMiB);
}

TEST_CASE("the tightest memory limit counts, and the contents of files do not count as used") {
  System system;
  system.write("/sys/fs/cgroup/memory.max", std::to_string(900 * kMiB) + "\n");
  system.write("/sys/fs/cgroup/memory.current", std::to_string(100 * kMiB) + "\n");
  CHECK(memory_room(system.root()) == 800 * kMiB);
  system.write("/sys/fs/cgroup/job/memory.max", std::to_string(400 * kMiB) + "\n");
  system.write("/sys/fs/cgroup/job/memory.current", std::to_string(300 * kMiB) + "\n");
  CHECK(memory_room(system.root()) == 100 * kMiB);
  system.write("/sys/fs/cgroup/job/memory.stat",
               "anon 1\ninactive_file " + std::to_string(50 * kMiB) + "\nactive_file " + std::to_string(20 * kMiB) + "\n");
  CHECK(memory_room(system.root()) == 170 * kMiB);
  system.write("/sys/fs/cgroup/job/memory.current", std::to_string(500 * kMiB) + "\n");
  CHECK(memory_room(system.root()) == 0);
}

TEST_CASE("a system without memory information has no room") {
  const TemporaryDirectory nothing;
  CHECK(memory_room(nothing.path()) == 0);
}

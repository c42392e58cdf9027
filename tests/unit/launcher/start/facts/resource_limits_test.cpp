#include "launcher/start/facts/resource_limits.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/unique_fd.h"
#include "support/catch.h"
#include "support/temporary_directory.h"

using namespace ddp::launcher;

namespace {

class Root {
 public:
  void file(const std::string& name, const std::string& text) {
    const std::filesystem::path path = std::filesystem::path(directory_.path()) / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void group(const std::string& line) { file("proc/self/cgroup", line + "\n"); }
  void mount(const std::string& lines) { file("proc/self/mountinfo", lines + "\n"); }
  std::optional<double> limit() const { return cgroup_cpu_limit(directory_.path()); }

 private:
  TemporaryDirectory directory_;
};

constexpr const char* kVersion2 = "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate";
constexpr const char* kVersion1 = "33 24 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:10 - cgroup cgroup rw,cpu,cpuacct";

}  // namespace

TEST_CASE("sufficient resource limits are not mentioned") {
  CHECK(limit_notes({}, 8).empty());
  CHECK(limit_notes({.descriptors = 4096, .stack = 8 << 20, .has_rdma = true}, 8).empty());
}

TEST_CASE("a low resource limit is named with its value and a remedy") {
  const auto few = limit_notes({.descriptors = 256}, 0);
  REQUIRE(few.size() == 1);
  CHECK_THAT(few[0], Catch::Contains("only 256 file descriptors") && Catch::Contains("ulimit -Hn"));
  const auto locked = limit_notes({.locked_memory = 8 << 20, .has_rdma = true}, 0);
  REQUIRE(locked.size() == 1);
  CHECK_THAT(locked[0], Catch::Contains("only 8 MiB") && Catch::Contains("ulimit -l unlimited"));
  const auto stack = limit_notes({.stack = ResourceLimits::kUnlimited}, 1);
  REQUIRE(stack.size() == 1);
  CHECK_THAT(stack[0], Catch::Contains("ulimit -s 8192"));
  CHECK(limit_notes({.stack = ResourceLimits::kUnlimited}, 0).empty());
}

TEST_CASE("too few file descriptors are an error with the number that is needed") {
  CHECK_FALSE(descriptor_shortage({.descriptors = 48}, 48, "2 workers"));
  CHECK(
      descriptor_shortage({.descriptors = 8}, 48, "2 workers") ==
      "the system allows only 8 file descriptors (ulimit -Hn), but 2 workers may need 48. Raise the limit, for example "
      "with ulimit -n 4096.");
  CHECK_THAT(*descriptor_shortage({.descriptors = 4096}, 8224, "1024 workers"), Catch::EndsWith("ulimit -n 8224."));
}

TEST_CASE("file descriptors that are already open count as needed") {
  CHECK_FALSE(descriptor_shortage({.descriptors = 50, .open_descriptors = 2}, 48, "2 workers"));
  CHECK(descriptor_shortage({.descriptors = 50, .open_descriptors = 3}, 48, "2 workers") ==
        "the system allows only 50 file descriptors (ulimit -Hn), but 2 workers may need 48, and 3 are open already. "
        "Raise the limit, for example with ulimit -n 4096.");
}

TEST_CASE("inherited file descriptors are counted") {
  const auto before = read_resource_limits().open_descriptors;
  const ddp::base::UniqueFd one(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const ddp::base::UniqueFd two(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  CHECK(read_resource_limits().open_descriptors == before + 2);
}

TEST_CASE("the resource limits are those of this process") {
  rlimit before{};
  ::getrlimit(RLIMIT_MEMLOCK, &before);
  const rlimit low{4096, before.rlim_max};
  ::setrlimit(RLIMIT_MEMLOCK, &low);
  CHECK(read_resource_limits().locked_memory == 4096);
  ::setrlimit(RLIMIT_MEMLOCK, &before);
}

TEST_CASE("without control groups there is no CPU limit") {
  CHECK_FALSE(Root().limit().has_value());
}

TEST_CASE("the smallest CPU limit of the control group and its parents counts") {
  Root root;
  root.mount(kVersion2);
  root.group("0::/slurm/job1/step0");
  root.file("sys/fs/cgroup/slurm/job1/step0/cpu.max", "max 100000\n");
  CHECK_FALSE(root.limit().has_value());
  root.file("sys/fs/cgroup/slurm/job1/cpu.max", "250000 100000\n");
  CHECK(root.limit() == 2.5);
  root.file("sys/fs/cgroup/slurm/cpu.max", "150000 50000\n");
  CHECK(root.limit() == 2.5);
  root.file("sys/fs/cgroup/slurm/job1/step0/cpu.max", "50000 100000\n");
  CHECK(root.limit() == 0.5);
}

TEST_CASE("the CPU limit of a container's root group counts") {
  Root root;
  root.mount(kVersion2);
  root.group("0::/");
  root.file("sys/fs/cgroup/cpu.max", "400000 100000\n");
  CHECK(root.limit() == 4.0);
}

TEST_CASE("cgroup version 1 gives a quota and a period") {
  Root root;
  root.mount(kVersion1);
  root.group("4:memory:/other\n2:cpu,cpuacct:/docker/abc\n0::/docker/abc");
  root.file("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "-1\n");
  root.file("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n");
  CHECK_FALSE(root.limit().has_value());
  root.file("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "300000\n");
  CHECK(root.limit() == 3.0);
}

TEST_CASE("a container that shows only its own group is read at the mount point") {
  Root root;
  root.mount("33 24 0:29 /docker/abc /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu");
  root.group("2:cpu:/docker/abc");
  root.file("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
  root.file("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  CHECK(root.limit() == 2.0);
}

TEST_CASE("unreadable control groups give no CPU limit") {
  Root root;
  root.mount(kVersion2);
  root.group("0::/a");
  for (const char* text : {"", "max", "x 100000", "100000 0", "1 2 3"}) {
    root.file("sys/fs/cgroup/a/cpu.max", text);
    CAPTURE(text);
    CHECK_FALSE(root.limit().has_value());
  }
  root.mount("nonsense - \n31 23");
  CHECK_FALSE(root.limit().has_value());
}

TEST_CASE("a CPU limit is rounded up to whole CPUs and never exceeds the affinity mask") {
  CHECK(usable_cpus(8, std::nullopt) == 8);
  CHECK(usable_cpus(8, 2.5) == 3);
  CHECK(usable_cpus(8, 2.0) == 2);
  CHECK(usable_cpus(8, 0.1) == 1);
  CHECK(usable_cpus(8, 64.0) == 8);
}

TEST_CASE("this process may run on at least one CPU") {
  const std::vector<int> cpus = affinity_cpus();
  REQUIRE_FALSE(cpus.empty());
  CHECK(std::is_sorted(cpus.begin(), cpus.end()));
}

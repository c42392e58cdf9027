#include "launcher/process/cgroup_folder.h"

#include <catch2/catch.hpp>

using namespace ddp::launcher;

TEST_CASE("the folder of a cgroup of version 2 follows from where it is mounted") {
  const std::string mounts =
      "29 23 0:25 / /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu\n"
      "30 23 0:26 / /sys/fs/cgroup/unified rw,nosuid shared:10 - cgroup2 cgroup2 rw\n";
  CHECK(cgroup2_folder("4:memory:/x\n0::/user.slice/a\n", mounts) == "/sys/fs/cgroup/unified/user.slice/a");
  CHECK(cgroup2_folder("0::/\n", mounts) == "/sys/fs/cgroup/unified");
  CHECK(cgroup2_folder("0::/kube/pod/c/sub\n", "1 2 0:26 /kube/pod/c /sys/fs/cgroup rw - cgroup2 cgroup rw\n") ==
        "/sys/fs/cgroup/sub");
  CHECK(cgroup2_folder("0::/a\n", "").empty());
  CHECK(cgroup2_folder("4:memory:/x\n", mounts).empty());
}

TEST_CASE("the cgroups of a controller are those of the process and those above it") {
  const auto version2 = cgroups_with("memory", "0::/a/b\n", "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  REQUIRE(version2.size() == 2);
  CHECK(version2[0].folder == "/sys/fs/cgroup/a/b");
  CHECK(version2[1].folder == "/sys/fs/cgroup/a");
  const auto version1 = cgroups_with("memory", "5:cpu:/x\n4:memory:/docker/1\n",
                                     "31 24 0:27 /docker/1 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  REQUIRE(version1.size() == 1);
  CHECK(version1[0].folder == "/sys/fs/cgroup/memory");
  CHECK_FALSE(version1[0].version2);
  CHECK(cgroups_with("memory", "", "garbage").empty());
  CHECK(cgroups_with("pids", "4:memory:/\n", "31 24 0:27 / /m rw - cgroup cgroup rw,memory\n").empty());
}

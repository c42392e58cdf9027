#include "launcher/start/facts/cgroups.h"

#include "support/catch.h"

using namespace ddp::launcher;

TEST_CASE("the cgroups of a controller run from the process's own cgroup up to the mount point") {
  const auto groups = cgroups_with("memory", "0::/a/b\n", "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  CHECK(groups ==
        std::vector<Cgroup>{{"/sys/fs/cgroup/a/b", true}, {"/sys/fs/cgroup/a", true}, {"/sys/fs/cgroup", true}});
}

TEST_CASE("a container's own cgroup is found at the mount point of its cgroup file system") {
  const std::vector<Cgroup> top = {{"/sys/fs/cgroup", true}};
  const std::string mounts = "30 24 0:26 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n";
  CHECK(cgroups_with("pids", "0::/\n", mounts) == top);
  CHECK(cgroups_with("pids", "0::/../outside\n", mounts) == top);
  // The process has no namespace for cgroups.
  const std::string bound = "1 2 0:26 /kube/pod/c /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
  CHECK(cgroups_with("pids", "0::/kube/pod/c\n", bound) == top);
  CHECK(cgroups_with("pids", "0::/kube/pod/c/sub\n", bound) ==
        std::vector<Cgroup>{{"/sys/fs/cgroup/sub", true}, {"/sys/fs/cgroup", true}});
  CHECK(cgroups_with("pids", "0::/kube/pod/cat\n", bound) == top);
}

TEST_CASE("cgroups of version 1 are listed before those of version 2") {
  const std::string mounts =
      "30 23 0:26 / /sys/fs/cgroup/unified rw,nosuid shared:10 - cgroup2 cgroup2 rw\n"
      "31 24 0:27 /docker/1 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
      "29 23 0:25 / /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n";
  const std::string groups = "5:cpu,cpuacct:/x\n4:memory:/docker/1\n0::/\n";
  const Cgroup unified = {"/sys/fs/cgroup/unified", true};
  CHECK(cgroups_with("memory", groups, mounts) == std::vector<Cgroup>{{"/sys/fs/cgroup/memory", false}, unified});
  CHECK(cgroups_with("cpu", groups, mounts) ==
        std::vector<Cgroup>{{"/sys/fs/cgroup/cpu/x", false}, {"/sys/fs/cgroup/cpu", false}, unified});
}

TEST_CASE("text without information about cgroups gives no cgroups") {
  CHECK(cgroups_with("memory", "", "garbage").empty());
  CHECK(cgroups_with("memory", "0::/a\n", "").empty());
  CHECK(cgroups_with("memory", "garbage\n", "30 24 0:26 / /c rw - cgroup2 cgroup2 rw\n").empty());
}

#include "launcher/facts/resource_limits.h"

#include <fcntl.h>
#include <sys/resource.h>

#include "base/unique_fd.h"
#include "support/catch.h"

using namespace ddp::launcher;

TEST_CASE("limits that suffice are not mentioned") {
  CHECK(limit_notes({}, 8).empty());
  CHECK(limit_notes({.descriptors = 4096, .stack = 8 << 20, .has_rdma = true}, 8).empty());
}

TEST_CASE("a limit that training runs into is named with its value and what to do") {
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

TEST_CASE("too few descriptors are an error that says how many are needed") {
  CHECK_FALSE(descriptor_shortage({.descriptors = 48}, 48, "2 workers"));
  CHECK(
      descriptor_shortage({.descriptors = 8}, 48, "2 workers") ==
      "the system allows only 8 file descriptors (ulimit -Hn), but 2 workers may need 48. Raise the limit, for example "
      "with ulimit -n 4096.");
  CHECK_THAT(*descriptor_shortage({.descriptors = 4096}, 8224, "1024 workers"), Catch::EndsWith("ulimit -n 8224."));
}

TEST_CASE("descriptors that are open already count as needed") {
  CHECK_FALSE(descriptor_shortage({.descriptors = 50, .open_descriptors = 2}, 48, "2 workers"));
  CHECK(descriptor_shortage({.descriptors = 50, .open_descriptors = 3}, 48, "2 workers") ==
        "the system allows only 50 file descriptors (ulimit -Hn), but 2 workers may need 48, and 3 are open already. "
        "Raise the limit, for example with ulimit -n 4096.");
}

TEST_CASE("inherited descriptors are counted") {
  const auto before = read_resource_limits().open_descriptors;
  const ddp::base::UniqueFd one(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const ddp::base::UniqueFd two(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  CHECK(read_resource_limits().open_descriptors == before + 2);
}

TEST_CASE("the limits that are read are those of this process") {
  rlimit before{};
  ::getrlimit(RLIMIT_MEMLOCK, &before);
  const rlimit low{4096, before.rlim_max};
  ::setrlimit(RLIMIT_MEMLOCK, &low);
  CHECK(read_resource_limits().locked_memory == 4096);
  ::setrlimit(RLIMIT_MEMLOCK, &before);
}

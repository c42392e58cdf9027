#include <ddp/init.h>

#include <atomic>
#include <stdexcept>

#include "support/catch.h"
#include "support/expect_error.h"
#include "support/require.h"

using namespace ddp;
using namespace ddp::test;

TEST_CASE("run_ranks() runs 4 ranks in one process, and their all_reduce sums over all of them") {
  std::atomic<int> sum = 0;
  run_ranks(4, [&](ProcessGroup& group) {
    require(group.backend() == "cpu", "the backend is " + group.backend());
    std::vector<std::int32_t> value = {group.rank()};
    group.all_reduce(value).wait();
    sum += value[0];
  });
  CHECK(sum == 4 * 6);
}

TEST_CASE("run_ranks throws the exception of the rank that failed first") {
  CHECK_THROWS_WITH(run_ranks(3,
                              [](ProcessGroup& group) {
                                if (group.rank() == 2) throw std::runtime_error("bad sample");
                                group.barrier().wait();
                              }),
                    "bad sample");
}

TEST_CASE("run_ranks with less than one rank is rejected") {
  expect_error(ErrorKind::invalid_argument, {"0 ranks"}, [] { run_ranks(0, [](ProcessGroup&) {}); });
}

TEST_CASE("run_ranks with an unknown backend is rejected") {
  expect_error(ErrorKind::invalid_argument, {"'glou'", "gloo"},
               [] { run_ranks(2, [](ProcessGroup&) {}, {.backend = "glou"}); });
}

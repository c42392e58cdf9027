// Tests groups whose communicators block inside NCCL, which is the default, and others (NCCL_COMM_BLOCKING=0). What
// waits for other ranks must end at the time-out and at an abort in both.
#include <ddp/error.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <latch>
#include <thread>

#include "support/catch.h"
#include "support/collective_checks.h"
#include "support/deadline.h"
#include "support/gpu_ranks.h"
#include "support/temporary_directory.h"

using namespace std::chrono_literals;
using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

namespace {

// Returns libraries whose communicators block, and others whose communicators do not.
Libraries of_both_kinds() {
  Libraries libraries = gpu_libraries();
  libraries->nccl.blocking = GENERATE(true, false);
  return libraries;
}

}  // namespace

TEST_CASE("blocking communicators compute the same results as non-blocking ones") {
  const Libraries libraries = of_both_kinds();
  for (const int size : gpu_rank_counts({1, 3})) {
    ranks_over(libraries, size).all_succeed([](RankThreads::Rank& self) {
      const DeviceMemory memory = gpu_memory(self.group());
      for (const DataType type : {DataType::f32, DataType::bf16, DataType::i16}) {
        check_everything(self.group(), type, 7);
        check_everything(self.group(), type, 1021, &memory);
      }
    });
  }
}

TEST_CASE("a blocking communicator that waits for a missing rank times out") {
  const Libraries libraries = of_both_kinds();
  const auto store = make_memory_store(10s);
  try {
    NcclBackend backend({0, 2, 0, 200ms}, store, libraries);
    CHECK(false);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::timeout);
    CHECK_THAT(error.what(), Catch::Contains("a rank did not arrive within 0.2 s"));
  }
}

TEST_CASE("a collective that waits while connecting ends at its timeout") {
  const auto ended = ranks_over(of_both_kinds(), 2).outcomes([](RankThreads::Rank& self) {
    if (self.rank() == 0) return self.group().barrier({.timeout = 300ms, .name = {}}).wait();
    self.waits_for(1);
  });
  CHECK(ended[0].kind == ErrorKind::timeout);
  CHECK_THAT(ended[0].message, Catch::Contains("0.3 s"));
}

TEST_CASE("an abort ends a collective that waits while connecting or later") {
  const bool connects = GENERATE(true, false);
  ranks_over(of_both_kinds(), 2).outcomes([&](RankThreads::Rank& self) {
    const GpuFloats values(self.group(), {1});
    if (!connects) self.group().all_reduce(values.memory).wait();
    if (self.rank() == 1) return self.waits_for(1);
    std::thread control([&] {
      std::this_thread::sleep_for(30ms);
      self.group().abort();
    });
    const RankOutcome outcome = outcome_of([&] { self.group().all_reduce(values.memory).wait(); });
    control.join();
    CHECK(outcome.kind == ErrorKind::aborted);
  });
}

TEST_CASE("groups are split for blocking and non-blocking communicators") {
  ranks_over(of_both_kinds(), 3).all_succeed([](RankThreads::Rank& self) {
    auto part = self.group().split(self.rank() == 2 ? -1 : 0);
    if (!part) return;
    std::vector<float> one = {1};
    part->all_reduce(one).wait();
    require(one[0] == 2, "wrong sum");
  });
}

TEST_CASE("a rank that leaves does not delay the closing of blocking communicators") {
  const Libraries libraries = gpu_libraries();
  libraries->closing_limit = 500ms;
  replace(libraries->nccl.finalize, [](NcclComm) {
    while (true) std::this_thread::sleep_for(1h);
    return NcclResult::success;
  });
  // The thread of the abort may outlive the test.
  const auto aborts = std::make_shared<std::atomic<int>>(0);
  replace(libraries->nccl.abort, [aborts, real = libraries->nccl.abort](NcclComm comm) {
    ++*aborts;
    return real(comm);
  });
  ranks_over(libraries, 1).all_succeed([](RankThreads::Rank& self) { self.group().barrier().wait(); });
  CHECK(eventually([&] { return *aborts == 1; }));
}

TEST_CASE("an NCCL configuration file that sets NCCL_COMM_BLOCKING is respected") {
  if (on_real_gpu()) return;
  const std::string value = GENERATE("0x1", "0");
  const TemporaryDirectory directory;
  const std::string file = directory.path() + "/nccl.conf";
  std::ofstream(file) << "NCCL_COMM_BLOCKING=" << value << "\n";
  ::setenv("NCCL_CONF_FILE", file.c_str(), 1);
  const auto ended = ranks_over(gpu_libraries(), 2).outcomes([](RankThreads::Rank& self) {
    if (self.rank() == 0) return self.group().barrier({.timeout = 300ms, .name = {}}).wait();
    self.waits_for(1);
  });
  ::unsetenv("NCCL_CONF_FILE");
  ::unsetenv("NCCL_COMM_BLOCKING");
  CHECK(ended[0].kind == ErrorKind::timeout);
  CHECK_THAT(ended[0].message, Catch::Contains("0.3 s"));
}

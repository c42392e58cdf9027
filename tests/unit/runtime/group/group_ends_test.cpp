// Tests groups that end, are aborted, or wait for a rank in vain, and calls that are refused. collectives_test.cpp
// tests what the collectives compute.
#include <ddp/process_group.h>

#include <functional>
#include <latch>
#include <optional>
#include <string>

#include "support/backends_under_test.h"
#include "support/catch.h"
#include "support/expect_error.h"
#include "support/rank_threads.h"
#include "support/scripted_backend.h"

using namespace ddp;
using namespace ddp::test;
using namespace std::chrono_literals;

TEST_CASE("an aborted group blocks no caller") {
  for (const BackendUnderTest& backend : backends_under_test()) {
    INFO(backend.name);
    RankThreads(backend.make, 2).all_succeed([](RankThreads::Rank& self) {
      std::vector<float> values(1000);
      if (self.rank() == 1) return self.waits_for_the_others();
      Work running = self.group().all_reduce(values);
      Work waiting = self.group().barrier();
      require(!running.wait_for(5ms), "alone");
      self.group().abort();
      require(outcome_of([&] { running.wait(); }).kind == ErrorKind::aborted, "running");
      require(outcome_of([&] { waiting.wait(); }).kind == ErrorKind::aborted, "waiting");
      require(outcome_of([&] { self.group().barrier().wait(); }).kind == ErrorKind::aborted, "later");
    });
  }
}

TEST_CASE("a group that has ended rejects calls") {
  RankThreads(cpu_near().make, 2).all_succeed([](RankThreads::Rank& self) {
    std::vector<float> values(1000, 1.0F);
    Work work = self.group().all_reduce(values);
    self.group().finalize();
    require(work.done() && values[999] == 2.0F, "what was called before is done");
    const RankOutcome late = outcome_of([&] { self.group().barrier().wait(); });
    require(late.kind == ErrorKind::aborted && late.message.find("finalized") != std::string::npos, late.message);
    const int other = 1 - self.rank();
    const std::vector<std::function<void()>> calls = {[&] { self.group().send(values, other).wait(); },
                                                      [&] { self.group().recv(values, other).wait(); },
                                                      [&] { self.group().monitored_barrier(); },
                                                      [&] {
                                                        (void)self.group().new_group(std::vector{0, 1});
                                                      },
                                                      [&] { (void)self.group().split(0); },
                                                      [&] { (void)self.group().allocate(1, DataType::f32); }};
    for (const auto& call : calls) {
      const RankOutcome refused = outcome_of(call);
      require(refused.kind == ErrorKind::aborted, refused.message);
      require(refused.message.find("finalized") != std::string::npos, refused.message);
    }
  });
}

TEST_CASE("the error of an aborted operation names the operation") {
  RankThreads(gloo_backend().make, 1).all_succeed([](RankThreads::Rank& self) {
    std::vector<float> values(10);
    self.group().abort();
    try {
      self.group().all_reduce(values).wait();
      require(false, "it is aborted");
    } catch (const OperationError& error) {
      require(error.kind() == ErrorKind::aborted && error.operation().name == "all_reduce", error.what());
      require(error.operation().sequence == 1 && error.operation().rank == 0, error.what());
    }
  });
}

TEST_CASE("null memory, or memory that the backend cannot access, is rejected before the call") {
  for (const BackendUnderTest& backend : {cpu_near(), gloo_backend()}) {
    RankThreads(backend.make, 2).all_succeed([](RankThreads::Rank& self) {
      expect_error(ErrorKind::invalid_argument, {"all_reduce: f32[4]", "null pointer"}, [&] {
        (void)self.group().all_reduce({nullptr, 4, DataType::f32});
      });
      float value = 0;
      expect_error(ErrorKind::unavailable, {"send: f32[1]", "GPU memory", "nccl"}, [&] {
        (void)self.group().send(Buffer(&value, 1, DataType::f32, DeviceType::cuda), 1 - self.rank());
      });
      self.group().all_reduce({nullptr, 0, DataType::f32}).wait();
      std::vector<float> values(4, 1.0F);
      self.group().all_reduce(values).wait();
      require(values[0] == 2, "nothing is broken");
    });
  }
}

TEST_CASE("a rank that reaches a monitored barrier after rank 0 gave up gets the error at once") {
  std::latch rank_2_calls(1);
  RankThreads(cpu_near().make, 3).all_succeed([&](RankThreads::Rank& self) {
    if (self.rank() == 1) self.waits_for(2);
    if (self.rank() == 2) rank_2_calls.count_down();
    if (self.rank() == 0) rank_2_calls.wait();
    const RankOutcome late = outcome_of([&] { self.group().monitored_barrier(self.rank() == 0 ? 1s : kPatience); });
    require(late.kind == ErrorKind::timeout, late.message);
    const std::string expected = self.rank() == 0 ? "rank 1 did not arrive within 1.0 s" : "rank 1 did not arrive";
    require(late.message.find(expected) != std::string::npos, late.message);
    if (self.rank() == 1) require(late.message.find("rank 0 gave up") != std::string::npos, late.message);
  });
}

TEST_CASE("a monitored barrier that waits for a rank which has left fails at once") {
  RankThreads(cpu_near().make, 3).all_succeed([&](RankThreads::Rank& self) {
    if (self.rank() == 1) return self.leaves();
    const RankOutcome lost = outcome_of([&] { self.group().monitored_barrier(kPatience); });
    require(lost.kind == ErrorKind::peer_lost, lost.message);
    require(lost.message.find("monitored_barrier #1: rank 1 has exited or left the group") != std::string::npos,
            lost.message);
    if (self.rank() == 0) self.waits_for(2);
  });
}

TEST_CASE("a monitored barrier names the missing ranks and breaks nothing") {
  std::latch rank_2_calls(1);
  RankThreads(cpu_near().make, 4).all_succeed([&](RankThreads::Rank& self) {
    self.group().monitored_barrier();
    if (self.rank() % 2 == 1) {
      self.waits_for(2);
      return;
    }
    if (self.rank() == 2) rank_2_calls.count_down();
    if (self.rank() == 0) rank_2_calls.wait();
    const RankOutcome late = outcome_of([&] { self.group().monitored_barrier(self.rank() == 0 ? 1s : kPatience); });
    require(late.kind == ErrorKind::timeout, late.message);
    require(late.message.find("ranks 1, 3 did not arrive within 1.0 s") != std::string::npos, late.message);
  });
}

namespace {

void make_and_drop_groups(RankThreads::Rank& self) {
  const std::vector<int> all = {0, 1, 2, 3};
  for (int i = 0; i < 12; ++i) {
    ProcessGroup group = self.group().new_group(all);
    std::vector<float> values(100, 1.0F);
    if (i % 2 == 0) group.all_reduce(values).wait();
    require(values[99] == (i % 2 == 0 ? 4.0F : 1.0F), "sum");
  }
}

}  // namespace

TEST_CASE("groups may be destroyed as soon as they are created") {
  for (const BackendUnderTest& backend : backends_under_test()) {
    INFO(backend.name);
    RankThreads(backend.make, 4).all_succeed(make_and_drop_groups);
  }
  for (const BackendUnderTest& backend : {cpu_between_nodes(), gloo_backend()}) {
    INFO(backend.name << ", on two nodes");
    RankThreads(backend.make, 4)
        .on([](int rank) { return std::string(rank < 2 ? "a" : "b"); })
        .all_succeed(make_and_drop_groups);
  }
}

TEST_CASE("the rank for which all others wait is named") {
  for (const BackendUnderTest& backend : {cpu_near(), gloo_backend()}) {
    INFO(backend.name);
    for (const bool is_transfer : {false, true}) {
      RankThreads(backend.make, 2).all_succeed([&](RankThreads::Rank& self) {
        if (self.rank() == 1) return self.waits_for(1);
        std::vector<float> values(100'000);
        CallOptions options;
        options.timeout = 200ms;
        const RankOutcome late = outcome_of([&] {
          if (is_transfer) return self.group().recv(values, 1, options).wait();
          self.group().all_reduce(values, ReduceOp::sum, options).wait();
        });
        require(late.kind == ErrorKind::timeout, late.message);
        require(late.message.find("rank 1 did not take part within 0.2 s") != std::string::npos, late.message);
      });
    }
  }
}

TEST_CASE("a group with an exited member is not created") {
  for (const BackendUnderTest& backend : {cpu_near(), gloo_backend()}) {
    INFO(backend.name);
    RankThreads(backend.make, 3).all_succeed([](RankThreads::Rank& self) {
      const std::vector<int> all = {0, 1, 2};
      if (self.rank() == 1) {
        ProcessGroup left = std::move(self.group());
        return;
      }
      const RankOutcome lost = outcome_of([&] { (void)self.group().new_group(all, "pipeline"); });
      require(lost.kind == ErrorKind::peer_lost, lost.message);
      require(lost.message.find("new_group 'pipeline' of ranks 0, 1, 2: rank 1 has exited") != std::string::npos,
              lost.message);
    });
  }
}

TEST_CASE("a rank can leave a group while its subgroup lives on, and the others notice") {
  RankThreads(cpu_near().make, 2).all_succeed([](RankThreads::Rank& self) {
    const int rank = self.rank();
    std::optional<ProcessGroup> part;
    {
      std::optional<ProcessGroup> whole(std::move(self.group()));
      part.emplace(whole->new_group(std::vector{0, 1}));
      if (rank == 0) {
        std::vector<float> values(4);
        const RankOutcome lost = outcome_of([&] { whole->all_reduce(values).wait(); });
        require(lost.kind == ErrorKind::peer_lost, lost.message);
      }
    }
    std::vector<float> values(4, 1.0F);
    part->all_reduce(values).wait();
    require(values[0] == 2, "the part works");
  });
}

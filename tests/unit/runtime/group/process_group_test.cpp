// Tests what a group checks, names and breaks. collectives_test.cpp tests what its collectives compute.
#include <ddp/process_group.h>

#include <array>
#include <atomic>
#include <functional>
#include <optional>
#include <thread>

#include "runtime/group/fault_injector.h"
#include "support/backends_under_test.h"
#include "support/catch.h"
#include "support/expect_error.h"
#include "support/made_page.h"
#include "support/rank_threads.h"
#include "support/scripted_backend.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;
using namespace std::chrono_literals;

TEST_CASE("invalid arguments are rejected before anything is sent") {
  ScriptedGroup scripted(3);
  ProcessGroup& group = scripted.group;
  std::vector<float> floats(6);
  std::vector<double> doubles(2);
  std::vector<std::int32_t> integers(2);
  expect_error(ErrorKind::invalid_argument, {"average", "i32"},
               [&] { (void)group.all_reduce(integers, ReduceOp::average); });
  expect_error(ErrorKind::invalid_argument, {"root 3", "group of 3"}, [&] { (void)group.broadcast(floats, 3); });
  expect_error(ErrorKind::invalid_argument, {"root -1"}, [&] { (void)group.broadcast(floats, -1); });
  expect_error(ErrorKind::invalid_argument, {"f32[6]", "must have the same type", "f64[2]"},
               [&] { (void)group.all_gather(floats, doubles); });
  expect_error(ErrorKind::invalid_argument, {"f32[6]", "3 times", "f32[6]"},
               [&] { (void)group.all_gather(floats, floats); });
  expect_error(ErrorKind::invalid_argument, {"root 7"}, [&] { (void)group.broadcast_bytes("x", 7); });
  CHECK(scripted.script->calls().empty());
}

TEST_CASE("a group knows its rank, size and backend") {
  const ScriptedGroup scripted(3, 2);
  CHECK(scripted.group.rank() == 2);
  CHECK(scripted.group.size() == 3);
  CHECK(scripted.group.backend() == "scripted");
  CHECK(scripted.group.backend_reason() == "scripted");
}

TEST_CASE("an error names the rank, the operation and its number") {
  ScriptedGroup scripted(3, 2);
  scripted.script->fail_at(2, ErrorKind::timeout);
  std::vector<float> values(5);
  scripted.group.barrier().wait();
  Work failing = scripted.group.all_reduce(values, ReduceOp::max);
  expect_error(ErrorKind::timeout, {"rank 2: all_reduce max #2 of f32[5]", "as the script says"},
               [&] { failing.wait(); });
  Work next = scripted.group.broadcast(values, 1);
  expect_error(ErrorKind::aborted,
               {"rank 2: broadcast from rank 1 #3 of f32[5]", "all_reduce max #2 of f32[5]: as the script says"},
               [&] { next.wait(); });
  expect_error(ErrorKind::aborted, {"all_gather"}, [&] { (void)scripted.group.all_gather_bytes("x"); });
  CHECK(scripted.script->calls().size() == 2);
}

TEST_CASE("a collective returns at once, and its work waits") {
  ScriptedGroup scripted;
  scripted.script->block();
  std::vector<float> values(5);
  Work work = scripted.group.all_reduce(values);
  REQUIRE(scripted.script->reaches(1));
  CHECK_FALSE(work.done());
  scripted.script->release();
  work.wait();
  CHECK(work.done());
}

TEST_CASE("a moved group stays usable") {
  ScriptedGroup scripted;
  ProcessGroup moved = std::move(scripted.group);
  moved.barrier().wait();
  CHECK(scripted.script->calls() == std::vector<std::string>{"barrier"});
}

TEST_CASE("an empty collective does not call the backend") {
  ScriptedGroup scripted(2);
  std::vector<float> none;
  scripted.group.all_reduce(none).wait();
  scripted.group.broadcast(none, 1).wait();
  scripted.group.all_gather(none, none).wait();
  CHECK(scripted.script->calls().empty());
}

TEST_CASE("a missing rank makes the others time out") {
  GlooRanks(3).all_succeed([](GlooRanks::Rank& self) {
    if (self.rank() == 2) return self.waits_for_the_others();
    std::vector<float> values(1000);
    CallOptions options;
    options.timeout = 200ms;
    const RankOutcome late = outcome_of([&] { self.group().all_reduce(values, ReduceOp::sum, options).wait(); });
    // The rank that times out first closes its connections.
    require(late.kind == ErrorKind::timeout || late.kind == ErrorKind::peer_lost, "not: " + late.message);
    const RankOutcome after = outcome_of([&] { self.group().all_reduce(values).wait(); });
    require(after.kind == ErrorKind::aborted, "expected aborted, not: " + after.message);
  });
}

TEST_CASE("a rank that never joins makes the rendezvous time out, and the error names it") {
  expect_error(ErrorKind::timeout, {"rank 1 did not take part within 1.0 s"}, [] {
    (void)make_gloo_backend({.rank = 0, .size = 2, .local_rank = 0, .timeout = 1s}, make_memory_store(20ms));
  });
}

TEST_CASE("gloo rejects GPU memory") {
  GlooRanks(1).all_fail(ErrorKind::unavailable, {"GPU memory", "nccl"}, [](GlooRanks::Rank& self) {
    float value = 0;
    self.group().all_reduce({&value, 1, DataType::f32, DeviceType::cuda}).wait();
  });
}

TEST_CASE("a mismatch of collectives names each rank's call and place") {
  for (const BackendUnderTest& backend : backends_under_test()) {
    INFO(backend.name);
    RankThreads(backend.make, 3)
        .all_fail(ErrorKind::mismatch,
                  {"all_reduce sum #2 of f32[4]", "all_reduce sum #2 of f32[5] ('head.weight')",
                   "process_group_test.cpp:", "the ranks call different collectives"},
                  [](RankThreads::Rank& self) {
                    std::vector<float> values(self.rank() == 1 ? 5 : 4);
                    self.group().barrier().wait();
                    CallOptions options;
                    if (self.rank() == 1) options.name = "head.weight";
                    self.group().all_reduce(values, ReduceOp::sum, options).wait();
                  });
  }
}

TEST_CASE("each way in which calls can differ is detected before data is corrupted") {
  const std::vector<std::function<Work(ProcessGroup&, std::vector<float>&)>> others = {
      [](ProcessGroup& group, std::vector<float>& values) { return group.all_reduce(values, ReduceOp::max); },
      [](ProcessGroup& group, std::vector<float>& values) { return group.broadcast(values, 0); },
      [](ProcessGroup& group, std::vector<float>&) { return group.barrier(); },
      [](ProcessGroup& group, std::vector<float>& values) {
        return group.all_reduce({values.data(), values.size(), DataType::i32});
      },
      [](ProcessGroup& group, std::vector<float>& values) {
        return group.all_gather(values, std::span(values).first(2));
      },
  };
  for (const BackendUnderTest& backend : backends_under_test()) {
    for (std::size_t i = 0; i < others.size(); ++i) {
      INFO(backend.name << ", difference " << i);
      RankThreads(backend.make, 2).all_fail(ErrorKind::mismatch, {"rank 0", "rank 1"}, [&](RankThreads::Rank& self) {
        std::vector<float> values(4);
        (self.rank() == 0 ? self.group().all_reduce(values) : others[i](self.group(), values)).wait();
      });
    }
  }
}

TEST_CASE("ranks of different nodes compare their calls on request") {
  for (const BackendUnderTest& backend : {cpu_between_nodes(), gloo_backend()}) {
    INFO(backend.name);
    RankThreads(backend.make, 3)
        .on([](int rank) { return std::string(1, static_cast<char>('a' + rank)); })
        .with_detail()
        .all_fail(ErrorKind::mismatch,
                  {"all_reduce sum #2 of f32[5]", "all_reduce sum #2 of f32[4]", "process_group_test.cpp:"},
                  [](RankThreads::Rank& self) {
                    std::vector<float> values(self.rank() == 1 ? 5 : 4);
                    self.group().barrier().wait();
                    self.group().all_reduce(values).wait();
                  });
  }
}

TEST_CASE("a mismatch is reported to all ranks of all nodes") {
  for (const BackendUnderTest& backend : {cpu_between_nodes(), gloo_backend()}) {
    INFO(backend.name);
    RankThreads(backend.make, 4)
        .on([](int rank) { return std::string(rank < 2 ? "a" : "b"); })
        .with_detail()
        .all_fail(ErrorKind::mismatch, {"broadcast from rank 1 #1", "broadcast from rank 0 #1"},
                  [](RankThreads::Rank& self) {
                    std::vector<float> values(1'000);
                    self.group().broadcast(values, self.rank() == 3 ? 1 : 0).wait();
                  });
  }
}

TEST_CASE("differing ranks of different nodes time out instead of mixing their data") {
  CallOptions options;
  options.timeout = 200ms;
  RankThreads(gloo_backend().make, 2)
      .on([](int rank) { return std::string(1, static_cast<char>('a' + rank)); })
      .all_succeed([&](RankThreads::Rank& self) {
        std::vector<float> values(self.rank() == 1 ? 5 : 4, 1.0F);
        const RankOutcome ended = outcome_of([&] { self.group().all_reduce(values, ReduceOp::sum, options).wait(); });
        require(ended.kind == ErrorKind::timeout || ended.kind == ErrorKind::peer_lost, ended.message);
        require(values == std::vector<float>(values.size(), 1.0F), "untouched");
      });
}

TEST_CASE("parts of different sizes on both sides are a mismatch") {
  for (const BackendUnderTest& backend : {cpu_near(), cpu_staged()}) {
    const auto ended = RankThreads(backend.make, 2).outcomes([](RankThreads::Rank& self) {
      std::vector<float> values(self.rank() == 0 ? 30'000 : 40'000);
      std::vector<float> all(60'000);
      self.group().gather(self.rank() == 0 ? Buffer(all) : Buffer(), values, 0).wait();
    });
    CHECK(ended[0].kind == ErrorKind::mismatch);
    CHECK_THAT(ended[0].message,
               Catch::Contains("rank 1 sends 40000 elements to rank 0, which has a buffer for 30000"));
    CHECK(ended[1].kind);
  }
  const auto ended = RankThreads(cpu_near().make, 2).outcomes([](RankThreads::Rank& self) {
    std::vector<float> values(self.rank() == 0 ? 3 : 4);
    (self.rank() == 0 ? self.group().send(values, 1) : self.group().recv(values, 0)).wait();
  });
  CHECK_FALSE(ended[0].kind);
  CHECK(ended[1].kind == ErrorKind::mismatch);
  CHECK_THAT(ended[1].message, Catch::Contains("rank 0 sends f32[3], but this rank receives f32[4]"));
}

TEST_CASE("a rank that leaves is named to the ranks that wait for it") {
  for (const BackendUnderTest& backend : backends_under_test()) {
    INFO(backend.name);
    RankThreads(backend.make, 3).all_succeed([](RankThreads::Rank& self) {
      std::vector<float> values(100'000, 1.0F);
      self.group().all_reduce(values).wait();
      if (self.rank() == 1) return self.leaves();
      try {
        for (int i = 0; i < 10; ++i) self.group().all_reduce(values).wait();
      } catch (const OperationError& error) {
        require(error.kind() == ErrorKind::peer_lost, error.what());
        require(error.operation().name == "all_reduce" && error.operation().sequence >= 2, "operation");
        require(error.operation().rank == self.rank() && error.operation().group == "world", "who");
        return;
      }
      require(false, "nothing was thrown");
    });
  }
}

TEST_CASE("data that a rank gave before it left is used, however late another rank is") {
  for (const BackendUnderTest& backend : backends_under_test()) {
    INFO(backend.name);
    RankThreads(backend.make, 3).all_succeed([](RankThreads::Rank& self) {
      const std::vector<float> own(5, static_cast<float>(self.rank()));
      std::vector<float> all(15);
      // This is longer than any wait for a rank that has ended.
      if (self.rank() == 2) std::this_thread::sleep_for(700ms);
      self.group().gather(self.rank() == 0 ? Buffer(all) : Buffer(), own, 0).wait();
      if (self.rank() == 1) return self.leaves();
      if (self.rank() == 0) require(all[0] == 0 && all[5] == 1 && all[14] == 2, "gathered");
    });
  }
}

TEST_CASE("a missing rank is named at the call's own timeout") {
  RankThreads(cpu_near().make, 2).all_succeed([](RankThreads::Rank& self) {
    if (self.rank() == 1) return self.waits_for_the_others();
    std::vector<float> values(1000);
    CallOptions options;
    options.timeout = 100ms;
    const RankOutcome late = outcome_of([&] { self.group().all_reduce(values, ReduceOp::sum, options).wait(); });
    require(late.kind == ErrorKind::timeout, "not: " + late.message);
    require(late.message.find("rank 1 did not take part within 0.1 s") != std::string::npos, late.message);
  });
}

TEST_CASE("split() and new_group() make process groups of the given ranks in order, which reduce over these only") {
  for (const BackendUnderTest& backend : backends_under_test()) {
    INFO(backend.name);
    RankThreads(backend.make, 4).all_succeed([](RankThreads::Rank& self) {
      ProcessGroup& world = self.group();
      // The halves are the even ranks, and the odd ranks in descending order.
      auto half = world.split(world.rank() % 2, world.rank() % 2 == 0 ? world.rank() : -world.rank());
      require(half && half->size() == 2, "two halves");
      require(half->rank() == std::vector<int>{0, 1, 1, 0}[static_cast<std::size_t>(world.rank())], "order");
      require(half->name() == "world/" + std::to_string(world.rank() % 2), half->name());
      std::vector<std::int32_t> value = {world.rank()};
      half->all_reduce(value).wait();
      require(value[0] == (world.rank() % 2 == 0 ? 2 : 4), "sum of a half");
      if (world.rank() < 3) {
        const std::vector<int> ranks = {2, 0, 1};
        ProcessGroup three = world.new_group(ranks, "three");
        require(three.rank() == std::vector<int>{1, 2, 0}[static_cast<std::size_t>(world.rank())], "given order");
        value = {world.rank()};
        three.all_reduce(value).wait();
        require(value[0] == 3, "sum of three");
        const RankOutcome outside = outcome_of([&] { (void)world.new_group(std::vector<int>{3}); });
        require(outside.kind == ErrorKind::invalid_argument, "not a member");
      }
      require(!world.split(-1).has_value(), "no group for a negative color");
      world.barrier().wait();
    });
  }
}

TEST_CASE("subgroups share the status page and the injected faults of their group") {
  const MadePage made;
  wire::Fault third;
  third.kind = wire::FaultKind::skip;
  third.rank = 1;
  third.operation = "all_reduce";
  third.number = 3;
  FaultInjector faults({third}, 0);
  RankThreads(cpu_near().make, 2)
      .sharing({.page = made.map(), .faults = &faults})
      .all_succeed([&](RankThreads::Rank& self) {
        const std::array<int, 1> own = {self.rank()};
        ProcessGroup alone = self.group().new_group(own, "alone");
        std::optional<ProcessGroup> half = self.group().split(0);
        std::vector<float> values(4);
        alone.all_reduce(values).wait();
        half->all_reduce(values).wait();
        self.group().barrier().wait();
      });
  CHECK(faults.due(1, Operation::all_reduce).has_value());
  int shown = 0;
  for (const wire::PageGroup& group : made.layout->groups) shown += group.finished > 0 ? 1 : 0;
  CHECK(shown == 6);
  CHECK(made.layout->worker.handed_on > 0);
}

TEST_CASE("several threads may call one group") {
  RankThreads(cpu_near().make, 2).all_succeed([](RankThreads::Rank& self) {
    // One thread calls, and others wait, ask and continue. Each thread also has its own group.
    const std::vector<int> both = {0, 1};
    ProcessGroup own = self.group().new_group(both);
    std::thread beside([&] {
      for (int i = 0; i < 200; ++i) {
        std::vector<float> values(100, 1.0F);
        own.all_reduce(values).wait();
        require(values[99] == 2.0F, "beside");
      }
    });
    std::atomic<int> continued = 0;
    for (int i = 0; i < 200; ++i) {
      std::vector<float> values(100, 1.0F);
      Work work = self.group().all_reduce(values);
      work.then([&](const Error* failure) { continued += failure == nullptr ? 1 : 0; });
      std::thread waiter([&] { work.wait(); });
      while (!work.done()) std::this_thread::yield();
      waiter.join();
    }
    beside.join();
    require(continued == 200, "continuations");
  });
}

TEST_CASE("memory of a group is zeroed and may outlive it") {
  for (const BackendUnderTest& backend : backends_under_test()) {
    RankThreads(backend.make, 2).all_succeed([](RankThreads::Rank& self) {
      Memory kept = self.group().allocate(1'000'000, DataType::f32);
      {
        // One rank uses group memory, and the other one its own memory.
        Memory more = self.group().allocate(100'000, DataType::f32);
        std::vector<float> own(100'000, 1.0F);
        const Buffer values = self.rank() == 0 ? more.buffer() : Buffer(own);
        std::fill_n(values.as<float>().begin(), values.count, 1.0F);
        self.group().all_reduce(values).wait();
        require(values.as<float>()[99'999] == 2.0F, "mixed");
      }
      self.group().all_reduce(kept).wait();
      require(kept.as<float>()[999'999] == 0.0F, "zeros");
      self.group().barrier().wait();
      self.leaves();
      kept.as<float>()[0] = 1.0F;
    });
  }
}

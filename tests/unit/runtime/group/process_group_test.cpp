// What a group checks, names and breaks; what its collectives compute is in collectives_test.cpp.
#include <ddp/process_group.h>

#include <catch2/catch.hpp>

#include "support/expect_error.h"
#include "support/rank_threads.h"
#include "support/scripted_backend.h"

using namespace ddp;
using namespace ddp::test;
using namespace std::chrono_literals;

TEST_CASE("wrong arguments are refused before anything is sent") {
  ScriptedGroup scripted(3);
  ProcessGroup& group = scripted.group;
  std::vector<float> floats(6);
  std::vector<double> doubles(2);
  std::vector<std::int32_t> integers(2);
  expect_error(ErrorKind::invalid_argument, {"average", "i32"},
               [&] { (void)group.all_reduce(integers, ReduceOp::average); });
  expect_error(ErrorKind::invalid_argument, {"root 3", "group of 3"}, [&] { (void)group.broadcast(floats, 3); });
  expect_error(ErrorKind::invalid_argument, {"root -1"}, [&] { (void)group.broadcast(floats, -1); });
  expect_error(ErrorKind::invalid_argument, {"f32[6]", "not of one type", "f64[2]"},
               [&] { (void)group.all_gather(floats, doubles); });
  expect_error(ErrorKind::invalid_argument, {"f32[6]", "3 times", "f32[6]"},
               [&] { (void)group.all_gather(floats, floats); });
  expect_error(ErrorKind::invalid_argument, {"root 7"}, [&] { (void)group.broadcast_bytes("x", 7); });
  CHECK(scripted.script->calls().empty());
}

TEST_CASE("a group knows its rank and size and backend") {
  const ScriptedGroup scripted(3, 2);
  CHECK(scripted.group.rank() == 2);
  CHECK(scripted.group.size() == 3);
  CHECK(scripted.group.backend() == "scripted");
  CHECK(scripted.group.backend_reason() == "scripted");
}

TEST_CASE("an error names rank and operation and number") {
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

TEST_CASE("a collective returns at once and its work waits") {
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

TEST_CASE("a moved group goes on") {
  ScriptedGroup scripted;
  ProcessGroup moved = std::move(scripted.group);
  moved.barrier().wait();
  CHECK(scripted.script->calls() == std::vector<std::string>{"barrier"});
}

TEST_CASE("a collective of nothing asks nothing of the backend") {
  ScriptedGroup scripted(2);
  std::vector<float> none;
  scripted.group.all_reduce(none).wait();
  scripted.group.broadcast(none, 1).wait();
  scripted.group.all_gather(none, none).wait();
  CHECK(scripted.script->calls().empty());
}

TEST_CASE("a rank that disappears breaks the group of the others") {
  GlooRanks(3).all_succeed([](GlooRanks::Rank& self) {
    std::vector<float> values(1000, 1.0F);
    self.group().all_reduce(values).wait();
    if (self.rank() == 1) return self.leaves();
    const RankOutcome lost = outcome_of([&] {
      for (int i = 0; i < 10; ++i) self.group().all_reduce(values).wait();
    });
    require(lost.kind == ErrorKind::peer_lost, "expected peer_lost, not: " + lost.message);
    const RankOutcome after = outcome_of([&] { self.group().barrier().wait(); });
    require(after.kind == ErrorKind::aborted, "expected aborted, not: " + after.message);
  });
}

TEST_CASE("a rank that does not come makes the others time out") {
  GlooRanks(3, 200ms).all_succeed([](GlooRanks::Rank& self) {
    if (self.rank() == 2) return self.waits_for_the_others();
    std::vector<float> values(1000);
    const RankOutcome late = outcome_of([&] { self.group().all_reduce(values).wait(); });
    // Whoever times out first closes his connections.
    require(late.kind == ErrorKind::timeout || late.kind == ErrorKind::peer_lost, "not: " + late.message);
    const RankOutcome after = outcome_of([&] { self.group().all_reduce(values).wait(); });
    require(after.kind == ErrorKind::aborted, "expected aborted, not: " + after.message);
  });
}

TEST_CASE("a rank that never joins makes the rendezvous time out and names what is missing") {
  expect_error(ErrorKind::timeout, {"gloo/1"}, [] {
    (void)make_gloo_backend({.rank = 0, .size = 2, .local_rank = 0, .timeout = 1s}, make_memory_store(20ms));
  });
}

TEST_CASE("gloo refuses GPU memory") {
  GlooRanks(1).all_fail(ErrorKind::unavailable, {"GPU memory", "nccl"}, [](GlooRanks::Rank& self) {
    float value = 0;
    self.group().all_reduce({&value, 1, DataType::f32, DeviceType::cuda}).wait();
  });
}

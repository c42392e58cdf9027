#include "runtime/progress/record_ring.h"

#include <sys/wait.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <random>
#include <thread>

#include "runtime/progress/group_progress.h"
#include "support/catch.h"
#include "support/made_page.h"
#include "support/made_ring.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;
using wire::RecordKind;
using wire::RecordMode;

namespace {

Call call_of(std::uint64_t sequence, Operation operation = Operation::all_reduce) {
  static std::vector<float> values(16);
  Call call;
  call.operation = operation;
  call.input = values;
  call.output = values;
  call.sequence = sequence;
  call.called_at = std::chrono::steady_clock::now();
  call.name = "bucket 2: fc.weight, step " + std::to_string(sequence);
  return call;
}

// Returns the exit status of a forked child that carries out the action.
template <typename Action>
int status_of_child(const Action& action) {
  const pid_t child = ::fork();
  if (child == 0) {
    action();
    ::_exit(0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

}  // namespace

TEST_CASE("nothing is recorded without a ring or with another file in its place") {
  for (const char* descriptor : {static_cast<const char*>(nullptr), "", "x", "1000000", "0"}) {
    CHECK(RecordRing::map(descriptor).memory() == nullptr);
  }
  const MadePage page;
  CHECK(RecordRing::map(std::to_string(page.descriptor).c_str()).memory() == nullptr);
  const MadeRing other;
  SECTION("another version") {
    other.layout->version = wire::kRingVersion + 1;
  }
  SECTION("another magic") {
    other.layout->magic = wire::kPageMagic;
  }
  SECTION("fewer bytes") {
    other.layout->bytes -= 1;
  }
  SECTION("the ring of another process") {
    other.layout->writer = ::getpid() + 1;
  }
  SECTION("a file that is too short") {
    REQUIRE(::ftruncate(other.descriptor, sizeof(wire::RecordRingLayout) - 1) == 0);
  }
  CHECK(other.map().memory() == nullptr);
  const RecordRing none;
  none.add({.kind = RecordKind::step});
  none.begin_steps();
  none.end_step(1);
  none.show_values({});
  CHECK_FALSE(none.is_on());
  CHECK_FALSE(none.wants(0));
}

TEST_CASE("a record is read as it was written") {
  const MadeRing made;
  const RecordRing ring = made.map();
  REQUIRE(ring.memory() != nullptr);
  CHECK(made.layout->writer == ::getpid());
  ring.add({RecordKind::collective, 5, 9, 64, (7ULL << 32U) + 3, 2, 4, "bucket 0"});
  ring.add({RecordKind::phase, 0, 0});
  const auto records = made.take();
  REQUIRE(records.size() == 2);
  CHECK(records[0].kind == RecordKind::collective);
  CHECK((records[0].begin == 5 && records[0].end == 9 && records[0].bytes == 64 && records[0].number == 3));
  CHECK((records[0].group == 2 && records[0].operation == 4 && records[0].name == "bucket 0"));
  CHECK((records[1].kind == RecordKind::phase && records[1].begin == 1 && records[1].name.empty()));
  CHECK(records[1].group == wire::kNoRingGroup);
}

TEST_CASE("a full ring drops and counts records until the launcher has taken some") {
  const MadeRing made;
  const RecordRing ring = made.map();
  for (std::uint64_t i = 0; i < wire::kRingRecords + 10; ++i) ring.add({RecordKind::step, 1 + i, 2 + i});
  CHECK(made.layout->dropped == 10);
  CHECK(made.layout->claimed == wire::kRingRecords);
  CHECK(made.take().size() == wire::kRingRecords);
  ring.add({RecordKind::step, 7, 8});
  CHECK(made.take().size() == 1);
  CHECK(made.layout->dropped == 10);
}

TEST_CASE("a name has one entry, is shortened, and is left out if no entry is free") {
  const MadeRing made;
  const RecordRing ring = made.map();
  const auto name_after = [&](std::string_view name) {
    ring.add({.kind = RecordKind::step, .begin = 1, .name = name});
    const auto records = made.take();
    REQUIRE(records.size() == 1);
    return std::string(records[0].name);
  };
  const auto entries = [&] {
    return std::ranges::count_if(made.layout->names, [](const auto& name) { return name.hash != 0; });
  };
  for (int i = 0; i < 3; ++i) CHECK(name_after("bucket 0") == "bucket 0");
  CHECK(entries() == 1);
  CHECK(name_after(std::string(100, 'n')) == std::string(59, 'n'));
  CHECK(name_after(std::string(59, 'n')) == std::string(59, 'n'));
  CHECK(entries() == 2);
  int without = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::string name = "name " + std::to_string(i);
    const std::string held = name_after(name);
    CHECK((held == name || held.empty()));
    without += held.empty() ? 1 : 0;
  }
  CHECK(without > 0);
  CHECK(entries() > 200);
  CHECK(made.layout->names[0].hash == 0);
  CHECK(name_after("bucket 0") == "bucket 0");
}

TEST_CASE("the mode selects what is recorded and may change at any time") {
  const MadeRing made(RecordMode::off);
  const RecordRing ring = made.map();
  const auto wanted = [&] {
    int count = 0;
    for (std::uint64_t number = 1; number <= 512; ++number) count += ring.wants(number) ? 1 : 0;
    return count;
  };
  CHECK((!ring.is_on() && wanted() == 0));
  made.layout->mode = RecordMode::steps;
  CHECK((ring.is_on() && wanted() == 64));
  made.layout->mode = RecordMode::all;
  CHECK((ring.is_on() && wanted() == 512));
  made.layout->mode = static_cast<RecordMode>(99);
  CHECK((!ring.is_on() && wanted() == 0));
}

TEST_CASE("a step is recorded from the end of the previous one if that is known") {
  const MadeRing made(RecordMode::steps);
  const RecordRing ring = made.map();
  ring.end_step(1);
  ring.end_step(2);
  made.layout->mode = RecordMode::off;
  ring.end_step(3);
  made.layout->mode = RecordMode::steps;
  ring.end_step(4);
  ring.end_step(5);
  ring.begin_steps();
  ring.end_step(6);
  const auto records = made.take();
  REQUIRE(records.size() == 3);
  CHECK((records[0].number == 2 && records[1].number == 5 && records[2].number == 6));
  CHECK(records[1].begin > records[0].end);
  CHECK(records[2].begin >= records[1].end);
  CHECK(records[2].end >= records[2].begin);
}

TEST_CASE("no record of many threads is lost or mixed up while a reader takes them") {
  constexpr int kThreads = 4;
  constexpr std::uint64_t kEach = 20'000;
  const MadeRing made;
  const RecordRing ring = made.map();
  std::atomic<int> running = kThreads;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::uint64_t i = 1; i <= kEach; ++i) {
        ring.add({RecordKind::collective, i, i + 1, i * 3, i, static_cast<std::uint8_t>(thread), 0,
                  "name " + std::to_string(i % 50)});
      }
      --running;
    });
  }
  std::array<std::uint64_t, kThreads> latest{};
  std::uint64_t taken = 0;
  bool is_right = true;
  while (true) {
    const bool is_last = running == 0;
    // ThreadSanitizer does not see what two mappings of the same memory have in common.
    for (const NewRecord& record : ddp::test::MadeRing::take_from(*ring.memory())) {
      ++taken;
      const bool is_whole = record.group < kThreads && record.end == record.begin + 1 &&
                            record.bytes == record.begin * 3 && record.number == record.begin &&
                            record.name == "name " + std::to_string(record.begin % 50);
      is_right = is_right && is_whole && record.begin > latest[record.group % kThreads];
      latest[record.group % kThreads] = record.begin;
    }
    if (is_last) break;
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(is_right);
  CHECK(taken + made.layout->dropped == kThreads * kEach);
}

TEST_CASE("a forked child records nothing") {
  const MadeRing made;
  const RecordRing ring = made.map();
  ring.begin_steps();
  const int status = status_of_child([&] {
    const ProgressValue value{"loss", 1};
    ring.add({RecordKind::step, 1, 2});
    ring.end_step(1);
    ring.show_values({&value, 1});
    if (ring.memory() != nullptr || ring.is_on() || made.map().memory() != nullptr) ::_exit(1);
  });
  CHECK(status == 0);
  CHECK(made.layout->claimed == 0);
  CHECK(made.layout->value_count == 0);
  ring.end_step(1);
  CHECK(made.take().size() == 1);
}

TEST_CASE("RecordRing goes on writing after random contents of the ring") {
  const MadeRing made;
  const RecordRing ring = made.map();
  std::mt19937_64 random(7);
  const auto fill = [&](void* memory, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i)
      static_cast<unsigned char*>(memory)[i] = static_cast<unsigned char>(random());
  };
  for (int round = 0; round < 100; ++round) {
    fill(&made.layout->dropped, sizeof(wire::RecordRingLayout) - offsetof(wire::RecordRingLayout, dropped));
    for (int i = 0; i < 20; ++i) {
      ring.add({.kind = RecordKind::step, .begin = 1, .name = "name " + std::to_string(i)});
    }
    const ProgressValue value{"loss", 2};
    ring.show_values({&value, 1});
    CHECK(made.layout->value_count == 1);
  }
  // If more is taken than claimed, the writer goes on at what is taken.
  made.layout->claimed = 3;
  made.layout->taken = 100;
  ring.add({RecordKind::step, 1, 2});
  CHECK(made.layout->claimed == 101);
}

TEST_CASE("the program's values are replaced as a whole, and their names are shortened") {
  const MadeRing made(RecordMode::off);
  const RecordRing ring = made.map();
  std::vector<ProgressValue> values(12, {"a name of more than 23 bytes", std::numeric_limits<double>::infinity()});
  ring.show_values(values);
  CHECK(made.layout->changes == 2);
  CHECK(made.layout->value_count == wire::kRingValues);
  CHECK(std::string(made.layout->values[7].name.data()) == "a name of more than 23 ");
  CHECK(std::isinf(made.layout->values[7].value));
  ring.show_values(std::vector<ProgressValue>{{"loss", std::nan("")}});
  CHECK(made.layout->changes == 4);
  CHECK(made.layout->value_count == 1);
  CHECK(std::string(made.layout->values[0].name.data()) == "loss");
  CHECK(std::isnan(made.layout->values[0].value));
  made.layout->changes = 5;  // as if a writer had died
  ring.show_values(std::vector<ProgressValue>{{"loss", 3}});
  CHECK(made.layout->changes == 6);
}

TEST_CASE("a group records its collectives, long waits and, in full mode, transfers") {
  const MadePage page;
  const MadeRing made(RecordMode::steps);
  GroupProgress progress(page.map(), true, "world", 7, 0, 2, made.map());
  const auto run = [&](const Call& call) {
    progress.called(call);
    progress.waits(call, true);
    progress.started(call);
    progress.finished(call);
    progress.waits(call, false);
  };
  run(call_of(3));
  run(call_of(32));
  run(call_of(3, Operation::send));
  // On a busy computer, a wait of this test is a long one.
  const auto is_wait = [](const auto& record) { return record.kind == RecordKind::wait; };
  auto records = made.take();
  std::erase_if(records, is_wait);
  REQUIRE(records.size() == 1);
  CHECK(records[0].kind == RecordKind::collective);
  CHECK((records[0].number == 3 && records[0].group == 0 && records[0].bytes == 64));
  CHECK(records[0].operation == static_cast<std::uint8_t>(Operation::all_reduce));
  CHECK(records[0].name == "bucket 2: fc.weight");
  CHECK(records[0].begin <= records[0].end);

  made.layout->mode = RecordMode::all;
  run(call_of(32));
  run(call_of(32, Operation::send));
  auto all = made.take();
  std::erase_if(all, is_wait);
  REQUIRE(all.size() == 2);
  CHECK((all[0].kind == RecordKind::collective && all[0].number == 32));
  CHECK((all[1].kind == RecordKind::transfer && all[1].number == 32 && all[1].bytes == 64));
  const Call call = call_of(33);
  const Call transfer = call_of(34, Operation::recv);
  progress.waits(call, true);
  progress.waits(transfer, true);
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(50);
  while (std::chrono::steady_clock::now() < end) {
  }
  progress.waits(transfer, false);
  progress.ran_on_gpu(call, call.called_at, call.called_at + std::chrono::microseconds(4));
  progress.waits(call, false);
  all = made.take();
  REQUIRE(all.size() == 3);
  CHECK((all[0].kind == RecordKind::wait && all[0].number == 0));
  CHECK((all[1].kind == RecordKind::gpu && all[1].number == 33 && all[1].end - all[1].begin == 4000));
  CHECK((all[2].kind == RecordKind::wait && all[2].number == 33 && all[2].end - all[2].begin >= 50'000));
}

TEST_CASE("a group without a place records without a group, and a hidden group records nothing") {
  const MadeRing made;
  const RecordRing ring = made.map();
  GroupProgress no_place({}, true, "world", 7, 0, 2, ring);
  no_place.finished(call_of(1));
  GroupProgress not_shown({}, false, "world", 7, 0, 2, ring);
  not_shown.finished(call_of(1));
  not_shown.ran_on_gpu(call_of(1), {}, {});
  const auto records = made.take();
  REQUIRE(records.size() == 1);
  CHECK(records[0].group == wire::kNoRingGroup);
}

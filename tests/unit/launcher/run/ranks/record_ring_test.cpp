#include "launcher/run/ranks/record_ring.h"

#include <fcntl.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "support/catch.h"
#include "support/random_seed.h"
#include "support/ring_writer.h"
#include "wire/call_names.h"

using namespace ddp;
using namespace ddp::launcher;
using ddp::test::RingWriter;
using wire::RecordKind;
using wire::RecordMode;

namespace {

constexpr std::uint64_t kStart = 1'000'000'000'000;
constexpr std::uint64_t kSecond = 1'000'000'000;

std::unique_ptr<wire::StatusPageLayout> page_with_group(std::size_t place, std::uint64_t identity, const char* name,
                                                        int size) {
  auto page = std::make_unique<wire::StatusPageLayout>();
  std::memset(static_cast<void*>(page.get()), 0, sizeof *page);
  page->groups[place].in_use = wire::kPageInUse;
  page->groups[place].identity = identity;
  page->groups[place].size = size;
  std::string(name).copy(page->groups[place].name.data(), page->groups[place].name.size());
  return page;
}

}  // namespace

TEST_CASE("a new ring selects what the worker records and cannot be shortened") {
  const RecordRing ring(RecordMode::all, kStart);
  const RingWriter worker(ring.descriptor());
  CHECK(worker.ring->magic == wire::kRingMagic);
  CHECK(worker.ring->version == wire::kRingVersion);
  CHECK(worker.ring->bytes == sizeof(wire::RecordRingLayout));
  CHECK(worker.ring->mode == RecordMode::all);
  ring.set_mode(RecordMode::off);
  CHECK(worker.ring->mode == RecordMode::off);
  CHECK(::ftruncate(ring.descriptor(), 0) != 0);
}

TEST_CASE("records are taken once, with their groups and names") {
  RecordRing ring(RecordMode::all, kStart);
  RingWriter worker(ring.descriptor());
  const auto page = page_with_group(3, 77, "world", 8);
  worker.name(5, "bucket 0");
  worker.write(RecordKind::collective, 12, kStart + 10, kStart + 30, 3, 0, 5, 4096);
  worker.write(RecordKind::step, 1, kStart + 5, kStart + 40);
  worker.write(RecordKind::collective, 13, kStart + 40, kStart + 50, 3, 2, 5, 64);
  RankRecords taken = ring.take(page.get(), kStart + 60, false);
  CHECK(taken.groups == std::vector<RecordedGroup>{{}, {77, "world", 8}});
  CHECK(taken.names == std::vector<std::string>{"", "bucket 0"});
  CHECK(taken.records == std::vector<Record>{{RecordKind::collective, 0, 1, 1, 12, kStart + 10, kStart + 30, 4096},
                                             {RecordKind::step, 0, 0, 0, 1, kStart + 5, kStart + 40, 0},
                                             {RecordKind::collective, 2, 1, 1, 13, kStart + 40, kStart + 50, 64}});
  CHECK(taken.dropped == 0);
  CHECK(ring.take(page.get(), kStart + 70, false).records.empty());
  // The next message has its own numbers for groups and names.
  worker.write(RecordKind::collective, 14, kStart + 60, kStart + 61, 3, 0, 5, 64);
  taken = ring.take(page.get(), kStart + 70, false);
  REQUIRE(taken.records.size() == 1);
  CHECK(taken.groups.at(taken.records[0].group).name == "world");
  CHECK(taken.names.at(taken.records[0].name) == "bucket 0");
}

TEST_CASE("records of a group that the program has left still name it") {
  RecordRing ring(RecordMode::all, kStart);
  RingWriter worker(ring.descriptor());
  const auto page = page_with_group(3, 77, "world", 8);
  worker.write(RecordKind::collective, 12, kStart + 10, kStart + 30, 3);
  page->groups[3].in_use = wire::kPageFree;
  const RankRecords taken = ring.take(page.get(), kStart + 60, true);
  REQUIRE(taken.records.size() == 1);
  CHECK(taken.groups.at(taken.records[0].group).name == "world");
}

TEST_CASE("a full ring drops and counts records until the launcher has taken some") {
  RecordRing ring(RecordMode::all, kStart);
  RingWriter worker(ring.descriptor());
  for (std::uint32_t i = 0; i < wire::kRingRecords + 10; ++i)
    worker.write(RecordKind::step, i + 1, kStart + i + 1, kStart + i + 2);
  RankRecords taken = ring.take(nullptr, kStart + kSecond, false);
  CHECK(taken.records.size() == wire::kRingRecords);
  CHECK(taken.records.back().number == wire::kRingRecords);
  CHECK(taken.dropped == 10);
  for (int round = 0; round < 3; ++round) {
    for (std::uint32_t i = 0; i < 3000; ++i) REQUIRE(worker.write(RecordKind::step, i + 1, kStart + 1, kStart + 2));
    taken = ring.take(nullptr, kStart + kSecond, false);
    CHECK(taken.records.size() == 3000);
  }
  CHECK(taken.dropped == 10);
}

TEST_CASE("a claimed but unwritten record is awaited and skipped after a second") {
  RecordRing ring(RecordMode::all, kStart);
  RingWriter worker(ring.descriptor());
  worker.write(RecordKind::step, 1, kStart + 1, kStart + 2);
  wire::RingRecord* const slow = worker.claim();
  worker.write(RecordKind::step, 3, kStart + 3, kStart + 4);
  CHECK(ring.take(nullptr, kStart + kSecond, false).records.size() == 1);
  CHECK(ring.take(nullptr, kStart + kSecond + kSecond / 2, false).records.empty());
  SECTION("and is read if it is written in time") {
    slow->kind = RecordKind::step;
    slow->number = 2;
    slow->end = kStart + 3;
    slow->begin = kStart + 2;
    const RankRecords taken = ring.take(nullptr, kStart + kSecond + kSecond / 2, false);
    REQUIRE(taken.records.size() == 2);
    CHECK(taken.records[0].number == 2);
    CHECK(taken.dropped == 0);
  }
  SECTION("because its thread may be dead") {
    const RankRecords taken = ring.take(nullptr, kStart + 2 * kSecond, false);
    REQUIRE(taken.records.size() == 1);
    CHECK(taken.records[0].number == 3);
    CHECK(taken.dropped == 1);
  }
  SECTION("at once if the worker has ended") {
    CHECK(ring.take(nullptr, kStart + kSecond + kSecond / 2, true).records.size() == 1);
  }
}

TEST_CASE("impossible records are dropped and counted") {
  RecordRing ring(RecordMode::all, kStart);
  RingWriter worker(ring.descriptor());
  worker.write(RecordKind::none, 1, kStart + 1, kStart + 2);
  worker.write(static_cast<RecordKind>(200), 1, kStart + 1, kStart + 2);
  worker.write(RecordKind::step, 1, kStart + 2, kStart + 1);
  worker.write(RecordKind::step, 1, kStart - 1, kStart + 1);
  worker.write(RecordKind::step, 1, kStart + 1, kStart + 5 * kSecond);
  worker.write(RecordKind::collective, 1, kStart + 1, kStart + 2, 0, 99);
  worker.write(RecordKind::phase, 1, kStart + 1, kStart + 2, 0, 10);
  worker.write(RecordKind::phase, 1, kStart + 1, kStart + 2, 0, 9);
  // A group or a name that does not exist, or that is being written, costs only itself.
  worker.ring->names[9].hash = wire::kNameIsWritten;
  worker.write(RecordKind::collective, 1, kStart + 1, kStart + 2, 40, 0, 9);
  const auto page = page_with_group(3, 77, "world", 8);
  const RankRecords taken = ring.take(page.get(), kStart + kSecond, false);
  REQUIRE(taken.records.size() == 2);
  CHECK(taken.records[1].group == 0);
  CHECK(taken.records[1].name == 0);
  CHECK(taken.dropped == 7);
}

TEST_CASE("an operation that only PyTorch knows is accepted") {
  RecordRing ring(RecordMode::all, kStart);
  RingWriter worker(ring.descriptor());
  const auto unknown = static_cast<std::uint8_t>(ddp::wire::kOperationNames.size());
  worker.write(RecordKind::collective, 1, kStart + 1, kStart + 2, 0, unknown);
  worker.write(RecordKind::collective, 2, kStart + 1, kStart + 2, 0, unknown + 1);
  const RankRecords taken = ring.take(nullptr, kStart + kSecond, false);
  REQUIRE(taken.records.size() == 1);
  CHECK(taken.records[0].operation == unknown);
  CHECK(taken.dropped == 1);
}

TEST_CASE("discarded records do not count as dropped") {
  RecordRing ring(RecordMode::all, kStart);
  RingWriter worker(ring.descriptor());
  for (int round = 0; round < 3; ++round) {
    for (std::uint32_t i = 0; i < 4000; ++i) REQUIRE(worker.write(RecordKind::step, i + 1, kStart + 1, kStart + 2));
    ring.discard();
  }
  worker.claim();
  const RankRecords taken = ring.take(nullptr, kStart + kSecond, false);
  CHECK(taken.records.empty());
  CHECK(taken.dropped == 0);
}

TEST_CASE("the program's values are read together, and invalid numbers are accepted") {
  RecordRing ring(RecordMode::off, kStart);
  RingWriter worker(ring.descriptor());
  CHECK(ring.values().empty());
  std::string("loss").copy(worker.ring->values[0].name.data(), 24);
  worker.ring->values[0].value = 1.5;
  worker.ring->values[1].name.fill('x');  // it has no end
  worker.ring->values[1].value = std::numeric_limits<double>::infinity();
  worker.ring->value_count = 2;
  CHECK(ring.values() ==
        std::vector<ProgressValue>{{"loss", 1.5}, {std::string(24, 'x'), std::numeric_limits<double>::infinity()}});
  worker.ring->changes = 1;
  CHECK(ring.values().empty());
  worker.ring->changes = 2;
  worker.ring->value_count = 4'000'000'000;
  CHECK(ring.values().size() == wire::kRingValues);
}

TEST_CASE("a record ring with random contents yields only records with valid indices and times, up to a limit") {
  RecordRing ring(RecordMode::all, kStart);
  RingWriter worker(ring.descriptor());
  const auto page = page_with_group(0, 1, "world", 2);
  std::mt19937_64 random(ddp::test::random_seed());
  auto* const words = reinterpret_cast<std::uint64_t*>(worker.ring);
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < 2000; ++i) words[random() % (sizeof(wire::RecordRingLayout) / 8)] = random();
    if (round % 2 == 0) worker.ring->claimed = worker.ring->taken + random() % (2 * wire::kRingRecords);
    const RankRecords taken = ring.take(page.get(), kStart + kSecond, round % 3 == 0);
    REQUIRE(taken.records.size() <= wire::kRingRecords);
    for (const Record& record : taken.records) {
      REQUIRE(record.group < taken.groups.size());
      REQUIRE(record.name < taken.names.size());
      REQUIRE(record.end >= record.begin);
    }
    REQUIRE(ring.values().size() <= wire::kRingValues);
    if (round % 5 == 0) ring.discard();
  }
}

TEST_CASE("no record is lost while a thread writes and the launcher reads") {
  RecordRing ring(RecordMode::all, kStart);
  constexpr std::uint32_t kCount = 200'000;
  std::thread thread([&] {
    RingWriter worker(ring.descriptor());
    for (std::uint32_t i = 1; i <= kCount;) {
      if (worker.write(RecordKind::step, i, kStart + i, kStart + i + 1)) ++i;
    }
  });
  std::uint32_t next = 1;
  while (next <= kCount) {
    for (const Record& record : ring.take(nullptr, kStart + kSecond, false).records) {
      if (record.number != next || record.begin != kStart + next) FAIL("record " << record.number << " at " << next);
      ++next;
    }
  }
  thread.join();
}

TEST_CASE("a ring that could not be created gives no records") {
  RecordRing ring;
  CHECK(ring.descriptor() == -1);
  CHECK(ring.take(nullptr, kStart, false).records.empty());
  ring.discard();
  ring.set_mode(RecordMode::all);
  CHECK(ring.values().empty());
}

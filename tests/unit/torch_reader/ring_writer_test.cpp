#include "torch_reader/ring_writer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>

#include "support/catch.h"
#include "wire/call_names.h"

using namespace ddp::torch_reader;
using namespace ddp::wire;

namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr Moment kNow{100 * kSecond, 5000 * kSecond};
constexpr int kWorker = 7;

// Holds a ring as the launcher makes it, and a page on which the group with identity 5 has place 1.
struct Made {
  int descriptor = ::memfd_create("ring", MFD_CLOEXEC);
  std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  RecordRingLayout* ring = nullptr;
  std::unique_ptr<StatusPageLayout> page = std::make_unique<StatusPageLayout>();

  explicit Made(RecordMode mode = RecordMode::all) {
    REQUIRE(::ftruncate(descriptor, sizeof(RecordRingLayout)) == 0);
    ring = static_cast<RecordRingLayout*>(
        ::mmap(nullptr, sizeof(RecordRingLayout), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0));
    ring->magic = kRingMagic;
    ring->version = kRingVersion;
    ring->bytes = sizeof(RecordRingLayout);
    ring->mode = mode;
    std::memset(static_cast<void*>(page.get()), 0, sizeof(StatusPageLayout));
    page->groups[1].identity = 5;
  }
  ~Made() {
    ::munmap(ring, sizeof(RecordRingLayout));
    ::close(descriptor);
  }
  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;
};

RecordedGroup group_of(std::uint64_t called, std::uint64_t finished, std::uint64_t identity = 5) {
  RecordedGroup group;
  group.identity = identity;
  group.called = called;
  group.finished = finished;
  for (std::uint64_t i = 1; i <= called; ++i) {
    const std::uint64_t made_at = kNow.realtime - 2 * kSecond + i;
    group.calls.push_back({i, "all_reduce", "f32", 8, 32, made_at, made_at + 50, 3});
  }
  return group;
}

}  // namespace

TEST_CASE("each finished collective is recorded once") {
  const Made made;
  RingWriter writer(made.path.c_str());
  writer.write(*made.page, kWorker, std::vector{group_of(5, 3)}, kNow);
  CHECK(made.ring->writer == kWorker);
  REQUIRE(made.ring->claimed == 3);
  const RingRecord& second = made.ring->records[1];
  CHECK((second.kind == RecordKind::collective && second.number == 2 && second.group == 1 && second.bytes == 32));
  CHECK(second.operation == 0);
  CHECK(second.name == 0);
  CHECK(second.begin == 98 * kSecond + 2);
  CHECK(second.end == second.begin + 50);
  writer.write(*made.page, kWorker, std::vector{group_of(5, 3)}, kNow);
  CHECK(made.ring->claimed == 3);
  writer.write(*made.page, kWorker, std::vector{group_of(9, 8)}, kNow);
  CHECK(made.ring->claimed == 8);
  writer.write(*made.page, kWorker, std::vector{group_of(1, 1, 6)}, kNow);
  REQUIRE(made.ring->claimed == 9);
  CHECK(made.ring->records[8].group == kNoRingGroup);
}

TEST_CASE("a collective is recorded when its end is known") {
  const Made made;
  RingWriter writer(made.path.c_str());
  RecordedGroup group = group_of(2, 2);
  const std::uint64_t end = std::exchange(group.calls[0].finished_at, 0);
  writer.write(*made.page, kWorker, std::vector{group}, kNow);
  REQUIRE(made.ring->claimed == 1);
  CHECK(made.ring->records[0].number == 2);
  group.calls[0].finished_at = end;
  writer.write(*made.page, kWorker, std::vector{group}, kNow);
  writer.write(*made.page, kWorker, std::vector{group}, kNow);
  REQUIRE(made.ring->claimed == 2);
  CHECK(made.ring->records[1].number == 1);
}

TEST_CASE("an operation with another name in PyTorch keeps that name beside its number") {
  const auto recorded = [](const std::string& operation) {
    const Made made;
    RecordedGroup group = group_of(1, 1);
    group.calls[0].operation = operation;
    RingWriter(made.path.c_str()).write(*made.page, kWorker, std::vector{group}, kNow);
    REQUIRE(made.ring->claimed == 1);
    const RingRecord& record = made.ring->records[0];
    return std::string(name_of(kOperationNames, record.operation)) + " '" + made.ring->names[record.name].text.data() +
           "'";
  };
  CHECK(recorded("broadcast") == "broadcast ''");
  CHECK(recorded("_all_gather_base") == "all_gather '_all_gather_base'");
  CHECK(recorded("_reduce_scatter_base") == "reduce_scatter '_reduce_scatter_base'");
  CHECK(recorded("_reduce_oop") == "reduce '_reduce_oop'");
  CHECK(recorded("coalesced") == "? 'coalesced'");
  CHECK(recorded("_") == "? '_'");
}

TEST_CASE("the ring's mode selects the collectives") {
  const Made made(RecordMode::off);
  RingWriter writer(made.path.c_str());
  writer.write(*made.page, kWorker, std::vector{group_of(256, 256)}, kNow);
  CHECK(made.ring->claimed == 0);
  made.ring->mode = RecordMode::steps;
  writer.write(*made.page, kWorker, std::vector{group_of(512, 512)}, kNow);
  CHECK(made.ring->claimed == 32);  // 257 to 287, and 512
}

TEST_CASE("records wait while the worker itself writes one") {
  const Made made;
  RingWriter writer(made.path.c_str());
  // Locks of the same process do not exclude each other.
  int to_child[2];
  int to_parent[2];
  REQUIRE((::pipe(to_child) == 0 && ::pipe(to_parent) == 0));
  char byte = 0;
  const pid_t child = ::fork();
  if (child == 0) {
    struct flock whole {};
    whole.l_type = F_WRLCK;
    if (::fcntl(made.descriptor, F_SETLK, &whole) != 0) ::_exit(1);
    [[maybe_unused]] const ssize_t written = ::write(to_parent[1], &byte, 1);
    [[maybe_unused]] const ssize_t got = ::read(to_child[0], &byte, 1);
    ::_exit(0);
  }
  REQUIRE(::read(to_parent[0], &byte, 1) == 1);
  writer.write(*made.page, kWorker, std::vector{group_of(5, 3)}, kNow);
  CHECK(made.ring->claimed == 0);
  REQUIRE(::write(to_child[1], &byte, 1) == 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  writer.write(*made.page, kWorker, std::vector{group_of(5, 3)}, kNow);
  CHECK(made.ring->claimed == 3);
  for (const int end : {to_child[0], to_child[1], to_parent[0], to_parent[1]}) ::close(end);
}

TEST_CASE("a file that is not a ring, or another process's ring, is left alone") {
  const Made made;
  SECTION("another process") {
    made.ring->writer = kWorker + 1;
  }
  SECTION("another version") {
    made.ring->version = kRingVersion + 1;
  }
  SECTION("a shorter file") {
    REQUIRE(::ftruncate(made.descriptor, sizeof(RecordRingLayout) - 4096) == 0);
  }
  RingWriter(made.path.c_str()).write(*made.page, kWorker, std::vector{group_of(5, 3)}, kNow);
  CHECK(made.ring->claimed == 0);
  for (const char* path : {"", "/", "/dev/null", "/no such file"}) {
    RingWriter(path).write(*made.page, kWorker, std::vector{group_of(5, 3)}, kNow);
  }
  RingWriter().write(*made.page, kWorker, std::vector{group_of(5, 3)}, kNow);
}

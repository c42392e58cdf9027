#include "torch_reader/call_times.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "support/catch.h"
#include "support/temporary_directory.h"

using namespace ddp::torch_reader;
namespace wire = ddp::wire;

namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kGroup = 0xa0;
constexpr std::uint64_t kEnqueued = 30'000;  // nanoseconds

// Writes a file as the library in the worker does.
class Worker {
 public:
  explicit Worker(const std::string& path) {
    const ddp::base::UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    REQUIRE(::ftruncate(file.get(), sizeof(wire::CallTimesLayout)) == 0);
    void* const memory =
        ::mmap(nullptr, sizeof(wire::CallTimesLayout), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    REQUIRE(memory != MAP_FAILED);
    layout = static_cast<wire::CallTimesLayout*>(memory);
    layout->magic = wire::kCallTimesMagic;
    layout->version = wire::kCallTimesVersion;
  }
  ~Worker() { ::munmap(layout, sizeof *layout); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // The caller goes on after kEnqueued, unless another time is given.
  void begins(std::uint64_t at, std::uint64_t work, std::uint64_t sequence, std::uint64_t group = kGroup,
              std::uint64_t takes = kEnqueued) {
    write(at, work, group, sequence);
    write(at + takes, 0, group, sequence);
  }
  void begins_and_is_stopped(std::uint64_t at, std::uint64_t work, std::uint64_t sequence, std::uint64_t group) {
    write(at, work, group, sequence);
  }
  void ends(std::uint64_t at, std::uint64_t work) { write(at, work, 0, 0); }

  wire::CallTimesLayout* layout = nullptr;

 private:
  void write(std::uint64_t at, std::uint64_t work, std::uint64_t group, std::uint64_t sequence) {
    const std::uint64_t number = layout->claimed++;
    wire::CallTime& time = layout->times[number % wire::kCallTimes];
    time.at = at;
    time.work = work;
    time.group = group;
    time.sequence = sequence;
    time.number = number + 1;
  }
};

// Makes a group with calls of these numbers and times.
RecordedGroup group_with(std::vector<std::pair<std::uint64_t, std::uint64_t>> calls, std::uint64_t identity = 7) {
  RecordedGroup group;
  group.identity = identity;
  for (const auto& [sequence, made_at] : calls) {
    group.calls.emplace_back();
    group.calls.back().sequence = sequence;
    group.calls.back().made_at = made_at;
  }
  return group;
}

std::vector<std::uint64_t> ends_of(CallTimes& times, RecordedGroup group) {
  std::vector<RecordedGroup> groups = {std::move(group)};
  times.add_to(groups);
  std::vector<std::uint64_t> ends;
  for (const RecordedCall& call : groups[0].calls) ends.push_back(call.finished_at);
  return ends;
}

}  // namespace

TEST_CASE("calls get their end times by their start times and numbers") {
  const TemporaryDirectory directory;
  CallTimes times;
  CHECK(ends_of(times, group_with({{1, 5 * kMs}})) == std::vector<std::uint64_t>{0});  // there is no memory yet
  Worker worker(directory.path() + "/times");
  times.open(directory.path() + "/times");
  worker.begins(5 * kMs, 0x1, 1);
  worker.begins(6 * kMs, 0x2, 2);
  worker.ends(9 * kMs, 0x2);
  CHECK(ends_of(times, group_with({{1, 5 * kMs + 100}, {2, 6 * kMs + 100}})) == std::vector<std::uint64_t>{0, 9 * kMs});
  worker.ends(11 * kMs, 0x1);
  // PyTorch uses the memory of an object that is gone again.
  worker.begins(12 * kMs, 0x1, 3);
  worker.ends(14 * kMs, 0x1);
  CHECK(ends_of(times, group_with({{1, 5 * kMs}, {2, 6 * kMs}, {3, 12 * kMs}})) ==
        std::vector<std::uint64_t>{11 * kMs, 9 * kMs, 14 * kMs});
}

TEST_CASE("calls of different groups are not mixed up") {
  const TemporaryDirectory directory;
  CallTimes times;
  Worker worker(directory.path() + "/times");
  times.open(directory.path() + "/times");
  worker.begins(5 * kMs, 0x1, 1, 0xa0);
  worker.begins(9 * kMs, 0x2, 1, 0xb0);
  worker.ends(20 * kMs, 0x1);
  worker.ends(30 * kMs, 0x2);
  CHECK(ends_of(times, group_with({{1, 9 * kMs}}, 8)) == std::vector<std::uint64_t>{30 * kMs});
  CHECK(ends_of(times, group_with({{1, 5 * kMs}}, 7)) == std::vector<std::uint64_t>{20 * kMs});
  CHECK(ends_of(times, group_with({{1, 50 * kMs}}, 9)) == std::vector<std::uint64_t>{0});
}

TEST_CASE("groups whose calls follow each other closely are not mixed up") {
  const TemporaryDirectory directory;
  CallTimes times;
  Worker worker(directory.path() + "/times");
  times.open(directory.path() + "/times");
  std::vector<RecordedGroup> groups = {group_with({}, 7), group_with({}, 8)};
  for (std::uint64_t i = 1; i <= 4; ++i) {
    const std::uint64_t at = 10 * i * kMs;
    worker.begins(at, 0x1, i, 0xb0);
    worker.begins(at + 40'000, 0x2, i, 0xa0);
    worker.ends(at + kMs, 0x2);
    worker.ends(at + 2 * kMs, 0x1);
    for (RecordedGroup& group : groups) {
      group.calls.emplace_back();
      group.calls.back().sequence = i;
      group.calls.back().made_at = at + (group.identity == 7 ? 20'000 : 60'000);
    }
  }
  times.add_to(groups);
  for (std::uint64_t i = 1; i <= 4; ++i) {
    CHECK(groups[0].calls[i - 1].finished_at == (10 * i + 2) * kMs);
    CHECK(groups[1].calls[i - 1].finished_at == (10 * i + 1) * kMs);
  }
  // What was taken for another group is found again.
  groups[0].calls = {groups[1].calls.back()};
  groups[0].calls[0].made_at += 500 * kMs;
  times.add_to(groups);
  CHECK_FALSE(times.counters_of(7));
}

TEST_CASE("a thread may be stopped for long between its call and the recorder's entry") {
  const TemporaryDirectory directory;
  CallTimes times;
  Worker worker(directory.path() + "/times");
  times.open(directory.path() + "/times");
  worker.begins(5 * kMs, 0x1, 1, 0xa0);
  worker.ends(8 * kMs, 0x1);
  worker.begins(10 * kMs, 0x2, 1, 0xb0, 900 * kMs);
  worker.ends(950 * kMs, 0x2);
  worker.begins_and_is_stopped(2000 * kMs, 0x3, 1, 0xc0);
  CHECK(ends_of(times, group_with({{1, 800 * kMs}}, 8)) == std::vector<std::uint64_t>{950 * kMs});
  CHECK(ends_of(times, group_with({{1, 2900 * kMs}}, 9)) == std::vector<std::uint64_t>{0});
  worker.ends(3000 * kMs, 0x3);
  CHECK(ends_of(times, group_with({{1, 2900 * kMs}}, 9)) == std::vector<std::uint64_t>{3000 * kMs});
}

TEST_CASE("groups called by threads at the same moment are distinguished by later calls") {
  const TemporaryDirectory directory;
  CallTimes times;
  Worker worker(directory.path() + "/times");
  times.open(directory.path() + "/times");
  worker.begins(5 * kMs, 0x1, 1, 0xa0, 2 * kMs);
  worker.begins(5 * kMs, 0x2, 1, 0xb0, 2 * kMs);
  worker.ends(8 * kMs, 0x1);
  worker.ends(9 * kMs, 0x2);
  CHECK(ends_of(times, group_with({{1, 6 * kMs}}, 8)) == std::vector<std::uint64_t>{0});
  worker.begins(20 * kMs, 0x1, 2, 0xa0);
  worker.begins(30 * kMs, 0x2, 2, 0xb0);
  worker.ends(40 * kMs, 0x2);
  CHECK(ends_of(times, group_with({{1, 6 * kMs}, {2, 30 * kMs}}, 8)) == std::vector<std::uint64_t>{9 * kMs, 40 * kMs});
}

TEST_CASE("threads that call one group may be recorded in a different order") {
  const TemporaryDirectory directory;
  CallTimes times;
  Worker worker(directory.path() + "/times");
  times.open(directory.path() + "/times");
  worker.begins(5 * kMs, 0x1, 1);
  worker.begins(7 * kMs, 0x3, 3);
  worker.begins(6 * kMs, 0x2, 2);
  for (const std::uint64_t work : {1, 2, 3}) worker.ends((20 + work) * kMs, work);
  CHECK(ends_of(times, group_with({{1, 5 * kMs}, {2, 6 * kMs}, {3, 7 * kMs}})) ==
        std::vector<std::uint64_t>{21 * kMs, 22 * kMs, 23 * kMs});
  CHECK(times.counters_of(7)->called == 3);
}

TEST_CASE("overwritten or half-written times are left out") {
  const TemporaryDirectory directory;
  CallTimes times;
  Worker worker(directory.path() + "/times");
  times.open(directory.path() + "/times");
  for (std::uint64_t i = 1; i <= wire::kCallTimes; ++i) {
    worker.begins(10 * i * kMs, i, i);
    worker.ends((10 * i + 2) * kMs, i);
  }
  const std::uint64_t last = wire::kCallTimes;
  ++worker.layout->claimed;  // of an entry that is not written yet
  CHECK(ends_of(times, group_with({{1, 10 * kMs}, {last, 10 * last * kMs}})) ==
        std::vector<std::uint64_t>{0, (10 * last + 2) * kMs});
  --worker.layout->claimed;
  worker.begins((10 * last + 5) * kMs, 0x1, last + 1);
  worker.ends((10 * last + 6) * kMs, 0x1);
  CHECK(ends_of(times, group_with({{last + 1, (10 * last + 5) * kMs}})) ==
        std::vector<std::uint64_t>{(10 * last + 6) * kMs});
}

TEST_CASE("garbage in the memory of a worker gives no times") {
  const TemporaryDirectory directory;
  CallTimes times;
  Worker worker(directory.path() + "/times");
  times.open(directory.path() + "/times");
  worker.ends(5 * kMs, 0x1);  // it never began
  worker.begins(9 * kMs, 0x2, 2);
  worker.ends(3 * kMs, 0x2);  // before its begin
  CHECK(ends_of(times, group_with({{2, 9 * kMs}})) == std::vector<std::uint64_t>{9 * kMs});
  worker.layout->claimed = UINT64_MAX;
  CHECK(ends_of(times, group_with({{3, 9 * kMs}})) == std::vector<std::uint64_t>{0});
}

TEST_CASE("CallTimes counts a call when it begins, and as finished when it and all earlier calls have ended") {
  const TemporaryDirectory directory;
  CallTimes times;
  CHECK_FALSE(times.read());
  Worker worker(directory.path() + "/times");
  times.open(directory.path() + "/times");
  worker.begins(5 * kMs, 0x1, 1);
  worker.ends(6 * kMs, 0x1);
  CHECK(times.read());
  CHECK_FALSE(times.counters_of(7));  // it is not known which group this is
  ends_of(times, group_with({{1, 5 * kMs}}));
  const auto counters = [&] {
    times.read();
    const auto found = times.counters_of(7);
    REQUIRE(found);
    return std::vector{found->called, found->finished, found->called_at / kMs};
  };
  CHECK(counters() == std::vector<std::uint64_t>{1, 1, 5});
  worker.begins(7 * kMs, 0x2, 2);
  worker.begins(8 * kMs, 0x3, 3);
  CHECK(counters() == std::vector<std::uint64_t>{3, 1, 8});
  worker.ends(9 * kMs, 0x3);
  CHECK(counters() == std::vector<std::uint64_t>{3, 1, 8});
  worker.ends(10 * kMs, 0x2);
  CHECK(counters() == std::vector<std::uint64_t>{3, 3, 8});
}

TEST_CASE("counters come from the recorder as long as a call may be missing") {
  const TemporaryDirectory directory;
  CallTimes times;
  Worker worker(directory.path() + "/times");
  times.open(directory.path() + "/times");
  worker.begins(50 * kMs, 0x1, 5);  // the calls before it were not noted
  worker.ends(51 * kMs, 0x1);
  std::vector<RecordedGroup> groups = {group_with({{4, 40 * kMs}, {5, 50 * kMs}})};
  groups[0].called = 5;
  groups[0].finished = 3;
  times.add_to(groups);
  CHECK_FALSE(times.counters_of(7));
  CHECK(groups[0].finished == 3);
  groups[0].finished = 4;
  times.add_to(groups);
  CHECK(times.counters_of(7));
  CHECK(groups[0].finished == 5);
}

TEST_CASE("a failed call is over when the recorder says so") {
  const TemporaryDirectory directory;
  CallTimes times;
  Worker worker(directory.path() + "/times");
  times.open(directory.path() + "/times");
  worker.begins(5 * kMs, 0x1, 1);
  worker.ends(6 * kMs, 0x1);
  worker.begins(7 * kMs, 0x2, 2);  // its end is not noted
  std::vector<RecordedGroup> groups = {group_with({{1, 5 * kMs}, {2, 7 * kMs}})};
  times.add_to(groups);
  CHECK(times.counters_of(7)->finished == 1);
  groups[0].finished = 2;
  times.add_to(groups);
  CHECK(times.counters_of(7)->finished == 2);
}

TEST_CASE("another group at a reused address is not mistaken for the old one") {
  const TemporaryDirectory directory;
  CallTimes times;
  Worker worker(directory.path() + "/times");
  times.open(directory.path() + "/times");
  for (std::uint64_t i = 1; i <= 9; ++i) {
    worker.begins(10 * i * kMs, 0x1, i);
    worker.ends((10 * i + 1) * kMs, 0x1);
  }
  ends_of(times, group_with({{9, 90 * kMs}}, 7));
  REQUIRE(times.counters_of(7));
  worker.begins(200 * kMs, 0x2, 1);
  worker.ends(201 * kMs, 0x2);
  CHECK(ends_of(times, group_with({{1, 200 * kMs}}, 8)) == std::vector<std::uint64_t>{201 * kMs});
  CHECK_FALSE(times.counters_of(7));
  CHECK(times.counters_of(8)->called == 1);
}

#include "torch_reader/nccl_recorder.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.h"

using namespace ddp::torch_reader;
using namespace std::chrono_literals;

namespace {

// A process with a world and a group of two, whose numbers at NCCL's recorder are 0 and 1.
class Process {
 public:
  Process() {
    lines_.pid = 7;
    lines_.groups = {{"0", "", 0, 4, {}, 1, "nccl"}, {"1", "pair", 0, 2, {0, 1}, 1, "nccl"}};
  }

  void pass(std::chrono::milliseconds time) { now_ += time; }
  bool add(const Statuses& statuses) { return recorder_.add_status(statuses, lines_, now_); }

  // Fetches entries that show these calls of the group with this number.
  void fetch(const Statuses& statuses, int number, std::uint64_t called, std::uint64_t finished,
             bool transfers = false) {
    auto groups = groups_without_calls(lines_, Recorder::nccl);
    RecordedGroup& group = groups.at(static_cast<std::size_t>(number));
    group.number = std::to_string(number);
    group.called = called;
    group.finished = finished;
    group.has_transfers = transfers;
    for (std::uint64_t i = 1; i <= called; ++i) {
      RecordedCall call;
      call.sequence = i;
      call.fingerprint = 100 + i;
      group.calls.push_back(call);
    }
    recorder_.add_entries(std::move(groups), statuses, lines_, now_);
  }

  RecordedGroup group(int number) const { return recorder_.groups(lines_).at(static_cast<std::size_t>(number)); }
  std::uint64_t completions() const { return recorder_.completions(); }
  WorkerLines& lines() { return lines_; }
  std::size_t size() const { return recorder_.groups(lines_).size(); }

 private:
  WorkerLines lines_;
  NcclRecorder recorder_;
  NcclRecorder::Time now_{1h};
};

}  // namespace

TEST_CASE("entries are not fetched while calls are in progress and the counters of their group change") {
  Process process;
  for (int i = 0; i < 100; ++i) {
    CHECK_FALSE(process.add({{"0", {2 * i + 2, 2 * i}}}));
    process.pass(1s);
  }
}

TEST_CASE("entries are fetched once when no call is in progress any more") {
  Process process;
  CHECK_FALSE(process.add({}));
  CHECK_FALSE(process.add({{"0", {5, 4}}}));
  process.pass(1s);
  CHECK(process.add({{"0", {5, 5}}}));
  process.fetch({{"0", {5, 5}}}, 0, 5, 5);
  process.pass(10s);
  CHECK_FALSE(process.add({{"0", {5, 5}}}));
  CHECK_FALSE(process.add({{"0", {6, 5}}}));
  CHECK(process.add({{"0", {6, 6}}}));
}

TEST_CASE("entries are not fetched while calls of another group are in progress") {
  Process process;
  CHECK_FALSE(process.add({{"0", {5, 5}}, {"1", {2, 1}}}));
}

TEST_CASE("the entries of a group whose counters do not change are fetched every few seconds") {
  Process process;
  const Statuses stuck{{"0", {5, 4}}, {"1", {9, 9}}};
  CHECK_FALSE(process.add(stuck));
  process.pass(2900ms);
  CHECK_FALSE(process.add(stuck));
  process.pass(100ms);
  CHECK(process.add(stuck));
  process.fetch(stuck, 0, 5, 4);
  process.pass(1s);
  CHECK_FALSE(process.add(stuck));
  process.pass(2s);
  CHECK(process.add(stuck));
  // A failed answer is asked for again.
  CHECK(process.add(stuck));
}

TEST_CASE("the status gives the counters of a group between two fetches") {
  Process process;
  process.fetch({{"0", {5, 4}}}, 0, 5, 4);
  CHECK((process.group(0).called == 5 && process.group(0).finished == 4 && process.group(0).is_current));
  process.pass(1s);
  process.add({{"0", {9, 7}}});
  CHECK((process.group(0).called == 9 && process.group(0).finished == 7 && process.group(0).is_current));
  // What the entries showed is newer than the status that came with them.
  process.fetch({{"0", {9, 7}}}, 0, 10, 8);
  CHECK((process.group(0).called == 10 && process.group(0).finished == 8));
}

TEST_CASE("a group without calls is current only if all counters are known") {
  Process process;
  CHECK((process.group(1).called == 0 && process.group(1).is_current));
  process.add({{"0", {1, 0}}});
  CHECK_FALSE(process.group(0).is_current);
  CHECK_FALSE(process.group(1).is_current);
  process.fetch({{"0", {1, 0}}}, 0, 1, 0);
  CHECK((process.group(0).is_current && process.group(1).is_current));
  process.add({{"0", {1, 0}}, {"1", {1, 0}}});
  CHECK(process.group(0).is_current);
  CHECK_FALSE(process.group(1).is_current);
}

TEST_CASE("a group with sends is current only until its status changes") {
  Process process;
  process.fetch({{"0", {3, 3}}}, 0, 5, 5, /*transfers=*/true);
  CHECK((process.group(0).called == 5 && process.group(0).is_current));
  process.add({{"0", {30, 30}}});
  CHECK_FALSE(process.group(0).is_current);
  CHECK(process.group(0).called == 5);
  process.fetch({{"0", {30, 30}}}, 0, 7, 7);  // its sends have left PyTorch's buffer
  CHECK((process.group(0).called == 7 && process.group(0).is_current));
  process.add({{"0", {31, 30}}});
  CHECK_FALSE(process.group(0).is_current);
}

TEST_CASE("if the status of a group in NCCL's recorder decreases, its numbers are not those of collectives") {
  Process process;
  process.fetch({{"0", {50, 50}}}, 0, 50, 50);
  process.add({{"0", {1, 50}}});
  CHECK_FALSE(process.group(0).is_current);
  CHECK((process.group(0).called == 50 && process.group(0).finished == 50));
}

TEST_CASE("only unfinished calls are compared with those of other ranks") {
  Process process;
  process.fetch({{"0", {3, 1}}}, 0, 3, 1);
  const auto fingerprints = [&] {
    std::vector<std::uint64_t> result;
    for (const RecordedCall& call : process.group(0).calls) result.push_back(call.fingerprint);
    return result;
  };
  CHECK(fingerprints() == std::vector<std::uint64_t>{0, 102, 103});
  process.add({{"0", {3, 2}}});
  CHECK(fingerprints() == std::vector<std::uint64_t>{0, 0, 103});
}

TEST_CASE("a recreated group counts from the beginning") {
  Process process;
  process.fetch({{"0", {5, 5}}}, 0, 5, 5);
  const std::uint64_t before = process.group(0).identity;
  process.lines().groups.push_back({"0", "", 0, 4, {}, 2, "nccl"});
  process.add({{"0", {5, 5}}});
  CHECK(process.group(0).identity != before);
  CHECK((process.group(0).called == 0 && process.group(0).is_current));
  CHECK(process.size() == 2);
}

TEST_CASE("calls of an aborted group are left alone") {
  Process process;
  const Statuses aborted{{"0", {5, 4}}};
  CHECK_FALSE(process.add(aborted));
  process.lines().groups.push_back({"0", "", 0, 4, {}, 2, "nccl"});
  process.pass(10s);
  CHECK_FALSE(process.add(aborted));
  CHECK_FALSE(process.add({{"0", {5, 4}}, {"1", {3, 2}}}));
  process.pass(10s);
  CHECK_FALSE(process.add({{"0", {5, 4}}, {"1", {3, 2}}}));
  CHECK_FALSE(process.add({{"0", {5, 4}}, {"1", {3, 3}}}));
}

TEST_CASE("completed calls are counted before entries show their group") {
  Process process;
  process.add({{"0", {1, 0}}});
  CHECK(process.completions() == 0);
  process.add({{"0", {2, 1}}});
  process.add({{"0", {4, 1}}});  // calls alone complete nothing
  CHECK(process.completions() == 1);
  process.add({{"0", {4, 4}}, {"1", {1, 0}}});
  process.add({{"0", {4, 4}}, {"1", {1, 1}}});
  CHECK(process.completions() == 3);
  CHECK_FALSE(process.group(0).is_current);
}

#include "runtime/progress/state_gate.h"

#include <atomic>
#include <thread>
#include <vector>

#include "support/catch.h"

using ddp::internal::StateGate;
using namespace std::chrono_literals;

namespace {

bool copies(StateGate& gate, std::chrono::milliseconds patience) {
  bool has_copied = false;
  const bool result = gate.try_copy(
      patience, [] { return false; }, [&] { has_copied = true; });
  CHECK(result == has_copied);
  return has_copied;
}

}  // namespace

TEST_CASE("StateGate without a keeper ignores changes and allows a copy at once") {
  StateGate gate;
  gate.begin_change();
  CHECK_FALSE(gate.end_change());
  CHECK(copies(gate, 0ms));
  gate.before_failure();
}

TEST_CASE("a state is copied only when its change has ended") {
  StateGate gate;
  gate.set_keeper([] {});
  CHECK_FALSE(gate.is_changing());
  gate.begin_change();
  gate.begin_change();
  CHECK(gate.is_changing());
  CHECK_FALSE(copies(gate, 0ms));
  CHECK(gate.end_change());
  CHECK_FALSE(gate.end_change());
  CHECK(copies(gate, 0ms));
}

TEST_CASE("a copy that is no longer needed does not wait") {
  StateGate gate;
  gate.set_keeper([] {});
  gate.begin_change();
  CHECK_FALSE(gate.try_copy(
      1h, [] { return true; }, [] {}));
}

TEST_CASE("a change waits for the copy, and a copy waits for the change") {
  StateGate gate;
  gate.set_keeper([] {});
  std::atomic<int> value = 0;
  std::atomic<bool> is_torn = false;
  std::thread copier([&] {
    for (int i = 0; i < 200; ++i) {
      gate.try_copy(
          1h, [] { return false; },
          [&] {
            const int before = value;
            std::this_thread::yield();
            is_torn = is_torn || before != value || before % 2 != 0;
          });
    }
  });
  for (int i = 0; i < 2000; ++i) {
    gate.begin_change();
    ++value;
    ++value;
    gate.end_change();
  }
  copier.join();
  CHECK_FALSE(is_torn);
}

TEST_CASE("StateGate calls the keeper before a failure, but not between begin_change() and end_change()") {
  StateGate gate;
  int calls = 0;
  gate.set_keeper([&] { ++calls; });
  gate.before_failure();
  CHECK(calls == 1);
  gate.begin_change();
  gate.before_failure();
  CHECK(calls == 1);
  gate.set_keeper(nullptr);
  gate.before_failure();
  CHECK(calls == 1);
  CHECK_FALSE(gate.end_change());
}

TEST_CASE("the keeper of a GPU state is called before each change and before an abort") {
  StateGate gate;
  std::vector<void*> streams;
  int aborts = 0;
  gate.before_abort();
  gate.set_keeper([] {}, {.changes = [&](ddp::Stream stream) { streams.push_back(stream.handle()); },
                          .before_abort = [&] { ++aborts; }});
  gate.begin_change();
  CHECK(streams.empty());
  gate.begin_change(nullptr);
  gate.begin_change(ddp::Stream::from_handle(&gate));
  CHECK(streams == std::vector<void*>{nullptr, &gate});
  gate.before_abort();
  CHECK(aborts == 1);
  gate.set_keeper(nullptr);
  gate.begin_change(nullptr);
  gate.before_abort();
  CHECK(streams.size() == 2);
  CHECK(aborts == 1);
}

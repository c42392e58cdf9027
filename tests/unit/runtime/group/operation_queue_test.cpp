#include "runtime/group/operation_queue.h"

#include <ddp/error.h>

#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/deadline.h"
#include "support/expect_error.h"

using namespace ddp::test;
using ddp::Error;
using ddp::ErrorKind;
using ddp::Work;
using ddp::internal::Call;

namespace {

// Runs operations that are functions of the test.
class Actions : public ddp::internal::CallRunner {
 public:
  void add(const std::string& name, std::function<void()> action) {
    const std::lock_guard lock(mutex_);
    by_name_[name] = std::move(action);
  }
  bool begin(std::span<const Call* const>) override { return begins(); }
  bool begin_batch(std::span<const Call* const> calls) override {
    batches.push_back(calls.size());
    return begins_batches;
  }
  ddp::internal::BeginsAhead begins_ahead() const override { return ahead; }
  void host_waits(const Call&, bool waits) override { host_waiters += waits ? 1 : -1; }
  void run(const Call& call) override {
    std::function<void()> action;
    {
      const std::lock_guard lock(mutex_);
      action = by_name_.at(call.name);
    }
    action();
  }
  std::string describe(const Call& call) const override { return call.name; }
  void waits_with_limit(bool begins) override { with_limit += begins ? 1 : -1; }

  std::atomic<int> with_limit = 0;    // threads that wait with a limit now
  std::atomic<int> host_waiters = 0;  // threads that wait on the host now
  std::vector<std::size_t> batches;   // numbers of operations that were to begin together
  bool begins_batches = false;
  ddp::internal::BeginsAhead ahead;
  std::function<bool()> begins = [] { return false; };

 private:
  std::mutex mutex_;
  std::map<std::string, std::function<void()>> by_name_;
};

class ScriptedQueue {
 public:
  Work push(const std::string& name, std::function<void()> action) {
    Call call;
    call.name = name;
    actions_->add(name, std::move(action));
    return queue_.push(std::move(call));
  }
  // Operations that are pushed from now on can begin without their run().
  void begins(std::function<bool()> begin) { actions_->begins = std::move(begin); }
  ddp::internal::OperationQueue& queue() { return queue_; }
  int waits_with_limit() const { return actions_->with_limit; }
  Actions& actions() { return *actions_; }

 private:
  std::shared_ptr<Actions> actions_ = std::make_shared<Actions>();
  ddp::internal::OperationQueue queue_{actions_};
};

}  // namespace

TEST_CASE("after a failure all operations are aborted, and the message names the first failure") {
  ScriptedQueue queue;
  int runs = 0;
  Work good = queue.push("op #1", [&] { ++runs; });
  Work bad = queue.push("op #2", [] { throw Error(ErrorKind::peer_lost, "rank 3 has exited"); });
  Work next = queue.push("op #3", [&] { ++runs; });
  good.wait();
  expect_error(ErrorKind::peer_lost, {"rank 3 has exited"}, [&] { bad.wait(); });
  expect_error(ErrorKind::aborted, {"op #3: not run", "rank 3 has exited"}, [&] { next.wait(); });
  Work late = queue.push("op #4", [&] { ++runs; });
  expect_error(ErrorKind::aborted, {"op #4: not run", "rank 3 has exited"}, [&] { late.wait(); });
  CHECK(runs == 1);
}

TEST_CASE("an exception of an unknown type becomes an internal error") {
  ScriptedQueue queue;
  Work bad = queue.push("op #1", [] { throw std::runtime_error("surprise"); });
  expect_error(ErrorKind::internal, {"op #1", "surprise"}, [&] { bad.wait(); });
}

TEST_CASE("a destroyed queue leaves no operation running or unfinished") {
  std::promise<void> begun;
  std::promise<void> may_end;
  bool ended = false;
  auto queue = std::make_unique<ScriptedQueue>();
  Work running = queue->push("op #1", [&] {
    begun.set_value();
    may_end.get_future().wait();
    ended = true;
  });
  Work waiting = queue->push("op #2", [] {});
  begun.get_future().wait();
  auto destroyed = std::async(std::launch::async, [&] { queue.reset(); });
  may_end.set_value();
  destroyed.get();
  CHECK(ended);
  running.wait();
  CHECK(waiting.done());  // it was aborted, or it has run if the destruction came late
}

TEST_CASE("a blocked operation does not delay an exception") {
  struct Shared {
    std::promise<void> begun;
    std::promise<void> answer;
    std::promise<void> ended;
  };
  const auto shared = std::make_shared<Shared>();
  bool heard = false;
  try {
    ScriptedQueue queue;
    static_cast<void>(queue.push("an operation", [shared] {
      shared->begun.set_value();
      shared->answer.get_future().wait();
      shared->ended.set_value();
    }));
    shared->begun.get_future().wait();
    throw std::runtime_error("bad sample");
  } catch (const std::runtime_error&) {
    heard = true;
  }
  CHECK(heard);
  auto ended = shared->ended.get_future();
  CHECK(ended.wait_for(std::chrono::seconds(0)) == std::future_status::timeout);
  shared->answer.set_value();
  ended.wait();
}

TEST_CASE("operations run in the order of their calls and one at a time") {
  ScriptedQueue queue;
  std::string order;
  std::atomic<int> at_once = 0;
  std::vector<Work> works;
  for (char c = 'a'; c <= 'z'; ++c) {
    works.push_back(queue.push(std::string(1, c), [&, c] {
      if (++at_once == 1) order += c;
      --at_once;
    }));
  }
  for (Work& work : works) work.wait();
  CHECK(order == "abcdefghijklmnopqrstuvwxyz");
}

TEST_CASE("a work can be waited for repeatedly and from any thread") {
  ScriptedQueue queue;
  std::promise<void> may_end;
  Work work = queue.push("op", [&] { may_end.get_future().wait(); });
  CHECK_FALSE(work.done());
  auto other = std::async(std::launch::async, [&] { work.wait(); });
  may_end.set_value();
  work.wait();
  other.get();
  CHECK(work.done());
  work.wait();
}

TEST_CASE("an operation whose work was dropped is still carried out") {
  std::atomic<bool> ran = false;
  ScriptedQueue queue;
  {
    const Work dropped = queue.push("dropped", [&] { ran = true; });
  }
  Work last = queue.push("last", [] {});
  last.wait();
  CHECK(ran);
}

TEST_CASE("an operation that has begun is run by the thread that waits for it") {
  ScriptedQueue queue;
  queue.begins([] { return true; });
  std::thread::id ran_on;
  Work work = queue.push("op", [&] { ran_on = std::this_thread::get_id(); });
  work.wait();
  CHECK(ran_on == std::this_thread::get_id());
}

TEST_CASE("an operation that has begun also ends if it is only polled") {
  ScriptedQueue queue;
  queue.begins([] { return true; });
  std::atomic<bool> ran = false;
  const Work work = queue.push("op", [&] { ran = true; });
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!work.done() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  CHECK(ran);
}

TEST_CASE("an operation that has begun is run even if the queue is destroyed") {
  std::atomic<bool> ran = false;
  {
    ScriptedQueue queue;
    queue.begins([] { return true; });
    const Work work = queue.push("op", [&] { ran = true; });
  }
  CHECK(ran);
}

TEST_CASE("a failure at the beginning of an operation belongs to that operation") {
  ScriptedQueue queue;
  queue.begins([]() -> bool { throw Error(ErrorKind::mismatch, "rank 1 calls something else"); });
  Work work = queue.push("op", [] {});
  expect_error(ErrorKind::mismatch, {"rank 1 calls"}, [&] { work.wait(); });
  queue.begins([] { return false; });
  Work next = queue.push("next", [] {});
  expect_error(ErrorKind::aborted, {"next: not run", "rank 1 calls"}, [&] { next.wait(); });
}

TEST_CASE("a wait with a time limit ends before its operation") {
  ScriptedQueue queue;
  std::promise<void> may_end;
  Work work = queue.push("op", [&] { may_end.get_future().wait(); });
  CHECK_FALSE(work.wait_for(std::chrono::milliseconds(1)));
  CHECK(queue.waits_with_limit() == 0);
  bool is_done = false;
  std::thread waits([&] { is_done = work.wait_for(kPatience); });
  CHECK(eventually([&] { return queue.waits_with_limit() == 1; }));
  may_end.set_value();
  waits.join();
  CHECK(is_done);
  CHECK(queue.waits_with_limit() == 0);
  CHECK(work.wait_for(std::chrono::nanoseconds(0)));
}

TEST_CASE("a continuation is called once, with the failure if there is one") {
  ScriptedQueue queue;
  std::promise<void> may_end;
  std::promise<std::string> heard;
  Work good = queue.push("good", [&] { may_end.get_future().wait(); });
  Work bad = queue.push("bad", [] { throw Error(ErrorKind::timeout, "too late"); });
  std::atomic<int> calls = 0;
  good.then([&](const Error* failure) { calls += failure == nullptr ? 1 : 100; });
  bad.then([&](const Error* failure) { heard.set_value(failure == nullptr ? "" : failure->what()); });
  may_end.set_value();
  CHECK(heard.get_future().get() == "too late");
  good.wait();
  CHECK(calls == 1);
  good.then([&](const Error* failure) { calls += failure == nullptr ? 1 : 100; });
  CHECK(calls == 2);
}

TEST_CASE("held operations begin together at the end of the outermost batch") {
  ScriptedQueue queue;
  std::atomic<int> ran = 0;
  queue.queue().hold();
  queue.queue().hold();
  Work first = queue.push("first", [&] { ++ran; });
  Work second = queue.push("second", [&] { ++ran; });
  queue.queue().release();
  CHECK_FALSE(second.wait_for(std::chrono::milliseconds(5)));
  expect_error(ErrorKind::invalid_argument, {"CollectiveBatch ends"}, [&] { first.wait(); });
  CHECK(ran == 0);
  queue.queue().release();
  second.wait();
  CHECK(ran == 2);
}

TEST_CASE("an operation without a waiting thread also runs after many that were waited for") {
  ScriptedQueue queue;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 50; ++i) queue.push("waited", [] {}).wait();
    std::atomic<bool> ran = false;
    const Work left_alone = queue.push("left alone", [&] { ran = true; });
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (!ran && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    CHECK(ran);
  }
}

TEST_CASE("operations are urgent while a thread waits for them on the host, and not while a stream does") {
  ScriptedQueue queue;
  bool is_waited_for = false;
  Work first =
      queue.push("op #1", [&] { is_waited_for = eventually([&] { return queue.actions().host_waiters == 1; }); });
  first.wait();
  CHECK(is_waited_for);
  CHECK(queue.actions().host_waiters == 0);
  Call call;
  call.name = "op #2";
  call.stream = nullptr;
  int waiters_seen = -1;
  queue.actions().add(call.name, [&] { waiters_seen = queue.actions().host_waiters; });
  Work second = queue.queue().push(call);
  second.wait();
  CHECK(waiters_seen == 0);
}

TEST_CASE("a batch that must wait for the ranks still begins as a whole") {
  ScriptedQueue queue;
  queue.actions().ahead = {.always = 4, .most = 4, .bytes = 0};
  queue.actions().begins_batches = true;
  std::vector<int> order;
  std::vector<Work> works;
  queue.queue().hold();
  for (int i = 0; i < 3; ++i) {
    works.push_back(queue.push("op #" + std::to_string(i), [&order, i] { order.push_back(i); }));
  }
  queue.queue().release();
  for (Work& work : works) work.wait();
  CHECK(queue.actions().batches == std::vector<std::size_t>{3});
  CHECK(order == std::vector{0, 1, 2});
}

TEST_CASE("operations of a batch that cannot begin as a whole run one by one") {
  ScriptedQueue queue;
  std::vector<Work> works;
  queue.queue().hold();
  for (int i = 0; i < 3; ++i) works.push_back(queue.push("op #" + std::to_string(i), [] {}));
  queue.queue().release();
  for (Work& work : works) work.wait();
  CHECK(queue.actions().batches == std::vector<std::size_t>{3, 2});
}

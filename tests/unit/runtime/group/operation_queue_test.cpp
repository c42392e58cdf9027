#include "runtime/group/operation_queue.h"

#include <ddp/error.h>

#include <catch2/catch.hpp>

#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>

#include "support/expect_error.h"

using namespace ddp::test;
using ddp::Error;
using ddp::ErrorKind;
using ddp::OperationQueue;
using ddp::Work;

TEST_CASE("after a failure everything is aborted and the message says what failed first") {
  OperationQueue queue;
  int runs = 0;
  Work good = queue.push("op #1", [&] { ++runs; });
  Work bad = queue.push("op #2", [] { throw Error(ErrorKind::peer_lost, "rank 3 has ended"); });
  Work next = queue.push("op #3", [&] { ++runs; });
  good.wait();
  expect_error(ErrorKind::peer_lost, {"op #2: rank 3 has ended"}, [&] { bad.wait(); });
  expect_error(ErrorKind::aborted, {"op #3", "op #2 failed", "rank 3 has ended"}, [&] { next.wait(); });
  Work late = queue.push("op #4", [&] { ++runs; });
  expect_error(ErrorKind::aborted, {"op #4", "op #2 failed"}, [&] { late.wait(); });
  CHECK(runs == 1);
}

TEST_CASE("an exception that is not ours is internal") {
  OperationQueue queue;
  Work bad = queue.push("op #1", [] { throw std::runtime_error("surprise"); });
  expect_error(ErrorKind::internal, {"op #1", "surprise"}, [&] { bad.wait(); });
}

TEST_CASE("a destroyed queue leaves no operation running and none undone") {
  std::promise<void> begun;
  std::promise<void> may_end;
  bool ended = false;
  auto queue = std::make_unique<OperationQueue>();
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
  CHECK(waiting.done());  // aborted, or run if the destruction came late
}

TEST_CASE("an exception is not held up by an operation that nobody answers") {
  struct Shared {
    std::promise<void> begun;
    std::promise<void> answer;
    std::promise<void> ended;
  };
  const auto shared = std::make_shared<Shared>();
  bool heard = false;
  try {
    OperationQueue queue;
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
  OperationQueue queue;
  std::string order;
  std::atomic<int> at_once = 0;
  std::vector<Work> works;
  for (char c = 'a'; c <= 'z'; ++c) {
    works.push_back(queue.push("op", [&, c] {
      if (++at_once == 1) order += c;
      --at_once;
    }));
  }
  for (Work& work : works) work.wait();
  CHECK(order == "abcdefghijklmnopqrstuvwxyz");
}

TEST_CASE("a work can be waited for often and from any thread") {
  OperationQueue queue;
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

TEST_CASE("a dropped work is carried out all the same") {
  std::atomic<bool> ran = false;
  OperationQueue queue;
  {
    const Work dropped = queue.push("op", [&] { ran = true; });
  }
  Work last = queue.push("op", [] {});
  last.wait();
  CHECK(ran);
}

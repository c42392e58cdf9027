#include <ddp/error.h>
#include <ddp/prefetch_queue.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <mutex>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/deadline.h"
#include "support/random_seed.h"

using namespace ddp::test;
using ddp::PrefetchQueue;
using Stop = std::stop_token;

namespace {

std::shared_ptr<void> result(std::int64_t number) {
  return std::make_shared<std::int64_t>(number);
}

// Returns the number of the next result, or -1 if there is none.
std::int64_t next_of(PrefetchQueue& queue) {
  const auto number = std::static_pointer_cast<std::int64_t>(queue.next());
  return number == nullptr ? -1 : *number;
}

std::string failure_of(PrefetchQueue& queue) {
  try {
    static_cast<void>(queue.next());
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("results come in the order of their numbers, whichever is ready first") {
  std::promise<void> second_is_ready;
  PrefetchQueue queue({.jobs = 3, .ahead = 3, .threads = 2}, [&](std::int64_t number, const Stop&) {
    if (number == 0) second_is_ready.get_future().wait();
    if (number == 1) second_is_ready.set_value();
    return result(number);
  });
  for (const std::int64_t expected : {0, 1, 2, -1, -1}) CHECK(next_of(queue) == expected);
}

TEST_CASE("jobs run ahead of the consumer by at most the given number") {
  for (const int threads : {1, 2, 5}) {
    for (const int ahead : {1, 2, 4}) {
      std::atomic<std::int64_t> asked = 0;
      std::atomic<std::int64_t> begun = 0;
      std::atomic<bool> too_far = false;
      constexpr std::int64_t kJobs = 30;
      PrefetchQueue queue({.jobs = kJobs, .ahead = ahead, .threads = threads}, [&](std::int64_t number, const Stop&) {
        ++begun;
        if (number >= asked + ahead) too_far = true;
        return result(number);
      });
      CHECK(eventually([&] { return begun == ahead; }));  // this is before the first next()
      for (std::int64_t number = 0; number < kJobs; ++number) {
        ++asked;
        CHECK(next_of(queue) == number);
        CHECK(eventually([&] { return begun == std::min(kJobs, asked + ahead); }));
      }
      CHECK(!too_far);
      CHECK(next_of(queue) == -1);
    }
  }
}

TEST_CASE("a returned result is not shared with the queue") {
  PrefetchQueue queue({.jobs = 5, .ahead = 2, .threads = 1},
                      [](std::int64_t number, const Stop&) { return result(number); });
  std::weak_ptr<void> first;
  {
    const std::shared_ptr<void> held = queue.next();
    first = held;
    CHECK(held.use_count() == 1);
  }
  CHECK(first.expired());
}

TEST_CASE("without threads each job runs in the consumer's thread when it is requested") {
  std::vector<std::int64_t> done;
  bool elsewhere = false;
  PrefetchQueue queue({.jobs = 3, .ahead = 7, .threads = 0},
                      [&, consumer = std::this_thread::get_id()](std::int64_t number, const Stop&) {
                        elsewhere = elsewhere || std::this_thread::get_id() != consumer;
                        done.push_back(number);
                        return result(number);
                      });
  CHECK(done.empty());
  CHECK(next_of(queue) == 0);
  CHECK(done == std::vector<std::int64_t>{0});
  CHECK(next_of(queue) == 1);
  CHECK(next_of(queue) == 2);
  CHECK(next_of(queue) == -1);
  CHECK(done == std::vector<std::int64_t>{0, 1, 2});
  CHECK(!elsewhere);
}

TEST_CASE("a queue without jobs is at its end") {
  for (const int threads : {0, 1, 3}) {
    PrefetchQueue queue({.jobs = 0, .ahead = 2, .threads = threads},
                        [](std::int64_t number, const Stop&) { return result(number); });
    CHECK(next_of(queue) == -1);
  }
}

TEST_CASE("no more threads run than there are jobs") {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  PrefetchQueue queue({.jobs = 100, .ahead = 2, .threads = 50}, [&](std::int64_t number, const Stop&) {
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
    return result(number);
  });
  for (std::int64_t number = 0; number < 100; ++number) CHECK(next_of(queue) == number);
  CHECK(threads.size() <= 2);
}

TEST_CASE("a failure is thrown at its position each time, and no job begins after it") {
  for (const int threads : {0, 1, 3}) {
    INFO(threads << " threads");
    std::atomic<std::int64_t> begun = 0;
    PrefetchQueue queue({.jobs = 1000, .ahead = 3, .threads = threads}, [&](std::int64_t number, const Stop&) {
      ++begun;
      if (number >= 4) throw std::runtime_error("job " + std::to_string(number));
      return result(number);
    });
    for (std::int64_t number = 0; number < 4; ++number) CHECK(next_of(queue) == number);
    for (int again = 0; again < 3; ++again) CHECK(failure_of(queue) == "job 4");
    CHECK(begun <= 4 + 3);
  }
}

TEST_CASE("a failure of a later job does not affect the results of earlier ones") {
  std::promise<void> failed;
  PrefetchQueue queue({.jobs = 10, .ahead = 2, .threads = 2}, [&](std::int64_t number, const Stop&) {
    if (number == 0) failed.get_future().wait();
    if (number == 1) {
      failed.set_value();
      throw std::runtime_error("job 1");
    }
    return result(number);
  });
  CHECK(next_of(queue) == 0);
  CHECK(failure_of(queue) == "job 1");
}

TEST_CASE("a destroyed queue stops its running jobs and begins no others") {
  std::atomic<int> begun = 0;
  std::atomic<int> stopped = 0;
  {
    const PrefetchQueue queue({.jobs = 1000, .ahead = 8, .threads = 3}, [&](std::int64_t, const Stop& stop) {
      ++begun;
      while (!stop.stop_requested()) std::this_thread::yield();
      ++stopped;
      return nullptr;
    });
    CHECK(eventually([&] { return begun == 3; }));
    CHECK(stopped == 0);
  }
  CHECK(begun == 3);
  CHECK(stopped == 3);
}

TEST_CASE("a queue can be destroyed at any moment") {
  const unsigned seed = random_seed();
  INFO("DDP_TEST_SEED=" << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    const auto jobs = static_cast<std::int64_t>(random() % 20);
    const int ahead = 1 + static_cast<int>(random() % 6);
    const int threads = static_cast<int>(random() % 5);
    const auto taken = static_cast<std::int64_t>(random() % 25);
    const auto failing = static_cast<std::int64_t>(random() % 40);
    std::atomic<std::int64_t> living = 0;
    {
      PrefetchQueue queue({.jobs = jobs, .ahead = ahead, .threads = threads}, [&](std::int64_t number, const Stop&) {
        if (number == failing) throw std::runtime_error("failing");
        if (number % 3 == 0) std::this_thread::yield();
        ++living;
        return std::shared_ptr<void>(new std::int64_t(number), [&](const void* memory) {
          --living;
          delete static_cast<const std::int64_t*>(memory);
        });
      });
      for (std::int64_t number = 0; number < taken; ++number) {
        if (number >= failing && failing < jobs) {
          REQUIRE(failure_of(queue) == "failing");
        } else {
          REQUIRE(next_of(queue) == (number < jobs ? number : -1));
        }
      }
    }
    REQUIRE(living == 0);
  }
}

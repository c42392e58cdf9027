#include <ddp/data_loader.h>
#include <ddp/error.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <numeric>
#include <ranges>
#include <stdexcept>
#include <thread>

#include "support/catch.h"
#include "support/expect_error.h"

using namespace ddp::test;
using ddp::Batch;
using ddp::batch_count;
using ddp::DataLoader;
using ddp::DistributedSampler;
using ddp::Error;
using ddp::ErrorKind;
using ddp::LastBatch;
using ddp::LoaderOptions;
using Indices = std::vector<std::int64_t>;

namespace {

constexpr std::array<LastBatch, 3> kLastBatches = {LastBatch::keep, LastBatch::drop, LastBatch::merge};

// Sample i is the text of i.
class Numbers {
 public:
  explicit Numbers(std::int64_t size) : size_(size) {}

  std::int64_t size() const { return size_; }
  std::string operator[](std::int64_t index) const {
    if (fail_) fail_(index);
    if (index % 5 == 0) std::this_thread::yield();
    return std::to_string(index);
  }

  // Sets a function that throws for some indices.
  void fail_with(std::function<void(std::int64_t)> fail) { fail_ = std::move(fail); }

 private:
  std::int64_t size_;
  std::function<void(std::int64_t)> fail_;
};

// Cuts the indices into batches as the options say. Each batch has at least one sample.
std::vector<Indices> cut(const Indices& indices, const LoaderOptions& options) {
  std::vector<Indices> batches;
  for (const std::int64_t index : indices) {
    if (batches.empty() || std::ssize(batches.back()) == options.batch_size) batches.emplace_back();
    batches.back().push_back(index);
  }
  if (batches.empty() || std::ssize(batches.back()) == options.batch_size) return batches;
  if (options.last_batch == LastBatch::drop) batches.pop_back();
  if (options.last_batch == LastBatch::merge && batches.size() > 1) {
    const Indices rest = batches.back();
    batches.pop_back();
    batches.back().insert(batches.back().end(), rest.begin(), rest.end());
  }
  return batches;
}

template <typename Loader>
std::vector<Indices> indices_of(const Loader& loader) {
  std::vector<Indices> batches;
  for (auto& batch : loader) {
    batches.push_back(batch.indices);
    std::vector<std::string> expected;
    for (const std::int64_t index : batch.indices) expected.push_back(std::to_string(index));
    REQUIRE(batch.samples == expected);
  }
  return batches;
}

// Is a data set that counts the running threads that have read from it.
struct Visited {
  static inline std::atomic<int> visitors = 0;
  static inline std::atomic<int> read = 0;
  struct Visit {
    Visit() { ++visitors; }
    ~Visit() { --visitors; }
  };
  std::int64_t size() const { return 10'000; }
  std::int64_t operator[](std::int64_t index) const {
    thread_local const Visit visit;
    ++read;
    return index;
  }
};

}  // namespace

TEST_CASE("batches come in the order of the sampler with any number of threads") {
  for (const std::int64_t size : {1, 2, 7, 24, 25}) {
    const Numbers dataset(size);
    for (const std::int64_t batch_size : {1, 2, 4, 8, 100}) {
      for (const LastBatch last_batch : kLastBatches) {
        if (last_batch == LastBatch::drop && (size + 1) / 2 < batch_size) continue;
        for (const auto& [prefetch, threads] : {std::pair{1, 1}, {0, 0}, {4, 2}, {3, 8}}) {
          for (int rank = 0; rank < 2; ++rank) {
            INFO("rank " << rank << ", " << size << " samples in batches of " << batch_size << ", prefetch " << prefetch
                         << ", threads " << threads);
            const DistributedSampler sampler(size, rank, 2);
            const LoaderOptions options{batch_size, prefetch, threads, last_batch};
            const DataLoader loader(dataset, sampler, options);
            const std::vector<Indices> expected = cut(sampler.indices(), options);
            REQUIRE(indices_of(loader) == expected);
            REQUIRE(loader.size() == std::ssize(expected));
          }
        }
      }
    }
  }
}

TEST_CASE("the last incomplete batch is kept, dropped or merged") {
  const auto count = [](std::int64_t samples, LastBatch last_batch) {
    return batch_count(samples, {.batch_size = 4, .last_batch = last_batch});
  };
  CHECK(count(9, LastBatch::keep) == 3);
  CHECK(count(9, LastBatch::drop) == 2);
  CHECK(count(9, LastBatch::merge) == 2);
  for (const LastBatch last_batch : kLastBatches) {
    CHECK(count(8, last_batch) == 2);
    CHECK(count(0, last_batch) == 0);
  }
  CHECK(count(3, LastBatch::keep) == 1);
  CHECK(count(3, LastBatch::drop) == 0);
  CHECK(count(3, LastBatch::merge) == 1);

  const Numbers dataset(9);
  const DistributedSampler sampler(9, 0, 1, {.shuffle = false});
  using Batches = std::vector<Indices>;
  CHECK(indices_of(DataLoader(dataset, sampler, {.batch_size = 4})) == Batches{{0, 1, 2, 3}, {4, 5, 6, 7}, {8}});
  CHECK(indices_of(DataLoader(dataset, sampler, {.batch_size = 4, .last_batch = LastBatch::merge})) ==
        Batches{{0, 1, 2, 3}, {4, 5, 6, 7, 8}});
}

TEST_CASE("each loop uses the current epoch of the sampler") {
  const Numbers dataset(20);
  DistributedSampler sampler(20, 1, 2);
  const DataLoader loader(dataset, sampler, {.batch_size = 3});
  for (const std::int64_t epoch : {0, 1, 7}) {
    sampler.set_epoch(epoch);
    CHECK(indices_of(loader) == cut(sampler.indices(), {.batch_size = 3}));
  }
}

TEST_CASE("a collate function makes batches of any type on the loader's threads") {
  const Numbers dataset(10);
  const DistributedSampler sampler(10, 0, 1, {.shuffle = false});
  std::atomic<bool> in_the_loop = false;
  const auto join = [&in_the_loop, loop = std::this_thread::get_id()](std::vector<std::string>&& samples) {
    if (std::this_thread::get_id() == loop) in_the_loop = true;
    std::string joined;
    for (const std::string& sample : samples) joined += sample;
    return joined;
  };
  std::vector<std::string> batches;
  for (std::string& batch : DataLoader(dataset, sampler, {.batch_size = 4, .prefetch = 3, .threads = 2}, join)) {
    batches.push_back(std::move(batch));
  }
  CHECK(batches == std::vector<std::string>{"0123", "4567", "89"});
  CHECK(!in_the_loop);
}

TEST_CASE("data sets are containers or functions of an index, with copied or moved samples") {
  struct Pointers {
    std::int64_t size() const { return 3; }
    std::unique_ptr<std::int64_t> operator[](std::int64_t index) const { return std::make_unique<std::int64_t>(index); }
  };
  const DistributedSampler sampler(3, 0, 1, {.shuffle = false});
  const Pointers pointers;
  std::vector<std::unique_ptr<std::int64_t>> taken;
  for (auto& batch : DataLoader(pointers, sampler)) taken.push_back(std::move(batch.samples.at(0)));
  CHECK(*taken.at(2) == 2);

  const std::vector<double> numbers = {0.5, 1.5, 2.5};
  double sum = 0;
  const DataLoader loader(numbers, sampler, {.batch_size = 2});
  std::ranges::for_each(loader, [&](const Batch<double>& batch) {
    sum = std::accumulate(batch.samples.begin(), batch.samples.end(), sum);
  });
  CHECK(sum == 4.5);
  static_assert(std::ranges::input_range<decltype(loader)>);
}

TEST_CASE("a loader cannot be made from a temporary data set") {
  using Data = std::vector<double>;
  static_assert(std::is_constructible_v<DataLoader<Data>, const Data&, const DistributedSampler&>);
  static_assert(!std::is_constructible_v<DataLoader<Data>, Data, const DistributedSampler&>);
  static_assert(!std::is_constructible_v<DataLoader<Data>, const Data&, DistributedSampler>);
  static_assert(!std::is_constructible_v<DataLoader<Data>, Data, DistributedSampler>);
}

TEST_CASE("a training resumes with the batch after the last used one") {
  const Numbers dataset(50);
  for (const LastBatch last_batch : kLastBatches) {
    const LoaderOptions options{.batch_size = 4, .prefetch = 4, .threads = 2, .last_batch = last_batch};
    DistributedSampler whole(50, 1, 2);
    whole.set_epoch(3);
    const std::vector<Indices> expected = indices_of(DataLoader(dataset, whole, options));
    for (std::size_t stop_after = 1; stop_after <= expected.size(); ++stop_after) {
      DistributedSampler sampler(50, 1, 2);
      sampler.set_epoch(3);
      std::size_t used = 0;
      for (const auto& batch : DataLoader(dataset, sampler, options)) {
        sampler.consume(std::ssize(batch.indices));
        if (++used == stop_after) break;
      }
      DistributedSampler resumed(50, 1, 2);
      resumed.restore(sampler.state());
      const DataLoader loader(dataset, resumed, options);
      const auto left = expected.begin() + static_cast<std::ptrdiff_t>(stop_after);
      REQUIRE(loader.size() == expected.end() - left);
      REQUIRE(indices_of(loader) == std::vector<Indices>(left, expected.end()));
    }
  }
}

TEST_CASE("a consumed epoch has no batches left, and the next one has all") {
  const Numbers dataset(10);
  DistributedSampler sampler(10, 0, 1);
  const DataLoader loader(dataset, sampler, {.batch_size = 4, .last_batch = LastBatch::drop});
  for (const auto& batch : loader) sampler.consume(std::ssize(batch.indices));
  CHECK(sampler.size() == 2);
  CHECK(loader.size() == 0);
  CHECK(loader.begin() == loader.end());
  CHECK(DataLoader(dataset, sampler, {.batch_size = 4, .last_batch = LastBatch::drop}).size() == 0);
  sampler.set_epoch(1);
  CHECK(loader.size() == 2);
}

TEST_CASE("an exception from a sample is thrown at its batch and names the sample") {
  for (const int threads : {0, 1, 3}) {
    Numbers dataset(20);
    dataset.fail_with([](std::int64_t index) {
      if (index == 9) throw std::out_of_range("no such page");
    });
    const DistributedSampler sampler(20, 0, 1, {.shuffle = false});
    const DataLoader loader(dataset, sampler, {.batch_size = 4, .prefetch = 3, .threads = threads});
    for (int loop = 0; loop < 2; ++loop) {
      std::int64_t batches = 0;
      expect_error(ErrorKind::unavailable, {"sample 9: no such page"}, [&] {
        for ([[maybe_unused]] const auto& batch : loader) ++batches;
      });
      CHECK(batches == 2);
    }
    dataset.fail_with(nullptr);
    CHECK(indices_of(loader).size() == 5);
  }
}

TEST_CASE("an Error keeps its kind and peer, and every exception is nested") {
  Numbers dataset(4);
  const DistributedSampler sampler(4, 0, 1, {.shuffle = false});
  const DataLoader loader(dataset, sampler, {.batch_size = 4});
  dataset.fail_with([](std::int64_t index) {
    if (index == 2) throw Error(ErrorKind::peer_lost, "rank 5 has exited", 5);
  });
  try {
    static_cast<void>(loader.begin());
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::peer_lost);
    CHECK(error.peer() == 5);
    CHECK(error.what() == std::string("sample 2: rank 5 has exited"));
    expect_error(ErrorKind::peer_lost, {"rank 5 has exited"}, [&] { std::rethrow_if_nested(error); });
  }
  dataset.fail_with([](std::int64_t) { throw 42; });
  expect_error(ErrorKind::unavailable, {"sample 0: ", "not a std::exception"},
               [&] { static_cast<void>(loader.begin()); });
}

TEST_CASE("an exception from a collate function names the first sample of the batch") {
  const Numbers dataset(20);
  const DistributedSampler sampler(20, 0, 1, {.shuffle = false});
  const auto refuse = [](std::vector<std::string>&& samples) {
    if (samples.front() == "8") throw Error(ErrorKind::corrupt, "shapes differ");
    return samples.size();
  };
  std::size_t samples = 0;
  expect_error(ErrorKind::corrupt, {"collate of 4 samples from sample 8: shapes differ"}, [&] {
    for (const std::size_t batch : DataLoader(dataset, sampler, {.batch_size = 4, .threads = 2}, refuse))
      samples += batch;
  });
  CHECK(samples == 8);
}

TEST_CASE("leaving a loop early ends its threads and loads few samples") {
  const Visited dataset;
  const DistributedSampler sampler(dataset.size(), 0, 1);
  const DataLoader loader(dataset, sampler, {.batch_size = 10, .prefetch = 4, .threads = 3});
  CHECK(Visited::read == 0);
  for ([[maybe_unused]] const auto& batch : loader) {
    CHECK(Visited::visitors >= 1);
    break;
  }
  CHECK(Visited::visitors == 0);
  CHECK(Visited::read >= 10);
  CHECK(Visited::read <= 50);  // these are the first batch and four batches ahead of it
  CHECK_THROWS_AS(
      [&] {
        for ([[maybe_unused]] const auto& batch : loader) throw std::runtime_error("the step failed");
      }(),
      std::runtime_error);
  CHECK(Visited::visitors == 0);
}

TEST_CASE("an iterator outlives its loader") {
  const Numbers dataset(9);
  const DistributedSampler sampler(9, 0, 1, {.shuffle = false});
  auto loader = std::make_unique<DataLoader<Numbers>>(dataset, sampler, LoaderOptions{.batch_size = 3});
  auto batch = loader->begin();
  loader.reset();
  ++batch;
  CHECK(batch->indices == Indices{3, 4, 5});
  auto moved = std::move(batch);
  ++moved;
  CHECK(moved->indices == Indices{6, 7, 8});
  ++moved;
  CHECK(moved == std::default_sentinel);
}

TEST_CASE("the number of samples in memory is limited to those prefetched and used") {
  struct Counted {
    std::atomic<int>& now;
    std::atomic<int>& most;
    std::int64_t size() const { return 400; }
    std::shared_ptr<void> operator[](std::int64_t /*index*/) const {
      const int count = ++now;
      for (int seen = most; seen < count && !most.compare_exchange_weak(seen, count);) {
      }
      return {&now, [this](void*) { --now; }};
    }
  };
  for (const int prefetch : {1, 3}) {
    for (const int threads : {1, 4}) {
      std::atomic<int> now = 0;
      std::atomic<int> most = 0;
      const Counted dataset{now, most};
      const DistributedSampler sampler(dataset.size(), 0, 1);
      for ([[maybe_unused]] auto& batch :
           DataLoader(dataset, sampler, {.batch_size = 10, .prefetch = prefetch, .threads = threads})) {
        std::this_thread::yield();
      }
      CHECK(now == 0);
      CHECK(most <= 10 * (prefetch + 1));
    }
  }
}

TEST_CASE("invalid loader options are rejected") {
  const Numbers dataset(10);
  const DistributedSampler sampler(10, 0, 4);
  const auto refuse = [&](const LoaderOptions& options, const std::vector<std::string>& words) {
    expect_error(ErrorKind::invalid_argument, words, [&] { DataLoader(dataset, sampler, options); });
  };
  refuse({.batch_size = 0}, {"batch_size is 0"});
  refuse({.batch_size = -4}, {"batch_size is -4"});
  refuse({.threads = -1}, {"threads is -1"});
  refuse({.prefetch = 0}, {"prefetch is 0", "threads = 0"});
  refuse({.prefetch = -1, .threads = 0}, {"prefetch is -1"});
  refuse({.batch_size = 4, .last_batch = LastBatch::drop},
         {"this rank has 3 samples, fewer than one batch of 4", "keep"});
  const DistributedSampler of_others(11, 0, 4);
  expect_error(ErrorKind::invalid_argument, {"11 samples", "has 10"}, [&] { DataLoader(dataset, of_others); });
  expect_error(ErrorKind::invalid_argument, {"batch_size is 0"}, [] { batch_count(3, {.batch_size = 0}); });
}

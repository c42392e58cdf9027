#include <ddp/compression_hooks.h>
#include <ddp/data_loader.h>
#include <ddp/gradient_accumulation.h>
#include <ddp/join.h>
#include <ddp/local_sgd.h>
#include <ddp/loss_scaler.h>
#include <ddp/optimizer.h>
#include <ddp/rehearsal.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "runtime/backend/backends.h"
#include "support/catch.h"
#include "support/expect_error.h"
#include "support/placed_memory.h"
#include "support/rank_threads.h"
#include "support/scripted_backend.h"

using namespace ddp;
using namespace ddp::test;

namespace {

// Draws a number with each sample, as a random augmentation does.
struct Numbers {
  mutable std::minstd_rand augmentation;
  std::int64_t size() const { return 46; }
  float operator[](std::int64_t index) const {
    return static_cast<float>(index) / 46 + static_cast<float>(augmentation() % 100) / 1e3F;
  }
};

using Options = std::function<DataParallelOptions()>;

DataParallelOptions plain() {
  return {};
}

// Trains three parameters with everything that a step may change, and lists the bits of all states after each step.
struct Training {
  PlacedMemory memory;
  std::vector<Buffer> parameters;
  std::array<float, 2> running = {0, 1};
  std::mt19937 dropout{7};
  Numbers dataset;
  std::optional<DistributedDataParallel> data_parallel;
  std::optional<Optimizer> optimizer;
  std::optional<LossScaler> scaler;
  std::vector<double> states;

  Training(ProcessGroup& group, const MemoryUnderTest& where, DataParallelOptions options)
      : memory(group, where.device) {
    std::vector<Tensor> tensors;
    for (const std::int64_t size : {5, 300, 4}) {
      parameters.push_back(memory.make(std::vector<float>(static_cast<std::size_t>(size), 0.25F)));
      tensors.push_back({"p" + std::to_string(size), parameters.back(), {size}});
    }
    options.stream = memory.stream();
    options.buckets = {.first_bytes = 64, .bytes = 64};
    data_parallel.emplace(group, std::move(tensors), std::move(options));
    optimizer.emplace(*data_parallel, AdamOptions{.learning_rate = 0.01});
    scaler.emplace(LossScalerOptions{.scale = 8, .growth_interval = 2});
  }

  void backward(const Batch<float>& batch) {
    float sum = static_cast<float>(dropout() % 1000) / 1e4F;
    for (const float sample : batch.samples) sum += sample / static_cast<float>(batch.samples.size());
    running[0] = 0.9F * running[0] + 0.1F * sum;
    running[1] = 0.9F * running[1] + 0.1F * sum * sum;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      memory.add(data_parallel->gradient(i), sum * (1 + static_cast<float>(i)) * static_cast<float>(scaler->scale()));
    }
    // The order differs from that of the parameters, so that the buckets are rebuilt.
    for (const std::size_t i : {1, 0, 2}) data_parallel->mark_ready(i);
  }

  void record() {
    for (const Buffer& parameter : parameters) append(memory.numbers(parameter));
    for (std::size_t i = 0; i < parameters.size(); ++i) append(memory.numbers(data_parallel->gradient(i)));
    append({running[0], running[1], scaler->scale(), scaler->state().data.as<double>()[1]});
    append({static_cast<double>(std::mt19937(dropout)())});
  }
  void append(const std::vector<double>& values) { states.insert(states.end(), values.begin(), values.end()); }
};

struct Course {
  std::vector<double> states;
  std::vector<std::size_t> sizes;  // of the batches
  std::int64_t counted_steps = 0;
  std::vector<std::vector<std::size_t>> buckets;
  bool operator==(const Course&) const = default;
};

Course train(ProcessGroup& group, const MemoryUnderTest& where, const Options& options, LoaderOptions loading,
             bool rehearse, std::int64_t accumulated = 1, std::int64_t consumed = 0) {
  Training training(group, where, options());
  Rehearsal rehearsal(*training.data_parallel, training.dropout, training.dataset.augmentation, training.running);
  if (rehearse) loading.rehearse_last_batch = &rehearsal;
  DistributedSampler sampler(training.dataset.size(), group);
  sampler.restore({.epoch = 0, .consumed = consumed});
  const DataLoader loader(training.dataset, sampler, loading);
  std::unique_ptr<Accumulation> window;
  if (accumulated > 1) window.reset(new Accumulation(training.data_parallel->accumulate(accumulated)));
  std::optional<LocalSgd> local;
  if (accumulated < 0) local.emplace(*training.data_parallel, LocalSgdOptions{.period = 2, .warmup_steps = 1});
  Course course;
  for (int epoch = 0; epoch < 2; ++epoch) {
    if (epoch > 0) sampler.set_epoch(epoch);
    std::int64_t left = loader.size();
    for (const auto& batch : loader) {
      course.sizes.push_back(batch.samples.size());
      window ? window->begin(left == 1) : training.data_parallel->zero_gradients();
      training.backward(batch);
      if (!window) training.data_parallel->finish();
      if ((!window || window->finish()) && training.scaler->unscale(*training.optimizer)) training.optimizer->step();
      if (local) local->step();
      if (rehearsal.is_running()) continue;
      --left;
      sampler.consume(std::ssize(batch.indices));
      training.record();
    }
  }
  course.states = training.states;
  course.counted_steps = training.data_parallel->statistics().steps;
  // The order of PriorityChunks follows from measured times.
  if (!std::holds_alternative<PriorityChunks>(options().exchange)) course.buckets = training.data_parallel->buckets();
  if (where.device == DeviceType::cuda) course.counted_steps = 0;  // depends on how far the GPU is
  return course;
}

// Requires that the training is the same with a rehearsal, whose batch has `size` samples. 0 means none.
void require_same(ProcessGroup& group, const MemoryUnderTest& where, const Options& options,
                  const LoaderOptions& loading, std::size_t size, std::int64_t accumulated = 1,
                  std::int64_t consumed = 0) {
  const Course without = train(group, where, options, loading, false, accumulated, consumed);
  Course with = train(group, where, options, loading, true, accumulated, consumed);
  if (size > 0) {
    require(with.sizes.front() == size, "the rehearsal has " + std::to_string(with.sizes.front()));
    with.sizes.erase(with.sizes.begin());
  }
  require(with.sizes == without.sizes, "batches");
  require(with.states == without.states, "the bits of the states");
  require(with.counted_steps == without.counted_steps, "statistics");
  require(with.buckets == without.buckets, "buckets");
}

const std::vector<Options> kOptions = {
    plain,
    [] { return DataParallelOptions{.buckets = {}, .unused = UnusedParameters::find}; },
    [] { return DataParallelOptions{.buckets = {}, .unused = UnusedParameters::static_graph}; },
    [] { return DataParallelOptions{.buckets = {}, .unused = {}, .exchange = PriorityChunks{64}}; },
    [] { return DataParallelOptions{.buckets = {}, .unused = {}, .exchange = ShardOptimizer{}}; },
    [] { return DataParallelOptions{.buckets = {}, .unused = {}, .exchange = make_top_k_hook(0.1)}; },
    [] { return DataParallelOptions{.buckets = {}, .unused = {}, .exchange = make_power_sgd_hook({.start_step = 2})}; },
    [] { return DataParallelOptions{.buckets = {}, .unused = {}, .exchange = make_half_hook(DataType::bf16)}; },
};

}  // namespace

TEST_CASE("a training with a rehearsal is bit-identical, whatever it exchanges", "[slow]") {
  const MemoryUnderTest memory = GENERATE(from_range(memories_in_software()));
  for (std::size_t i = 0; i < kOptions.size(); ++i) {
    CAPTURE(i);
    RankThreads(memory.make, 2).all_succeed([&](RankThreads::Rank& self) {
      require_same(self.group(), memory, kOptions[i], {.batch_size = 4, .threads = 1}, 3);
    });
  }
}

TEST_CASE("a rehearsal changes no training result for any number of ranks, micro-steps and loader threads") {
  for (const int ranks : {1, 2, 3}) {
    for (const std::int64_t accumulated : {1, 4, -1}) {
      for (const int threads : {0, 1}) {
        CAPTURE(ranks, accumulated, threads);
        RankThreads(make_cpu_backend, ranks).all_succeed([&](RankThreads::Rank& self) {
          const std::size_t last = (46 + static_cast<std::size_t>(ranks) - 1) / static_cast<std::size_t>(ranks) % 5;
          require_same(self.group(), host_memory(), plain,
                       {.batch_size = 5, .prefetch = threads > 0 ? 3 : 0, .threads = threads}, last, accumulated);
        });
      }
    }
  }
}

TEST_CASE("the last batch is rehearsed only if its size differs") {
  RankThreads(make_cpu_backend, 2).all_succeed([](RankThreads::Rank& self) {
    const auto check = [&](LoaderOptions options, std::size_t size, std::int64_t consumed = 0) {
      options.threads = 0;
      options.prefetch = 0;
      require_same(self.group(), host_memory(), plain, options, size, 1, consumed);
    };
    check({.batch_size = 4, .last_batch = LastBatch::merge}, 7);  // 23 samples per rank
    check({.batch_size = 4, .last_batch = LastBatch::drop}, 0);
    check({.batch_size = 1}, 0);
    check({.batch_size = 23}, 0);
    check({.batch_size = 30}, 0);     // the only batch
    check({.batch_size = 4}, 3, 8);   // resumes after the first batch
    check({.batch_size = 4}, 3, 40);  // resumes with the last batch, so the second epoch rehearses
  });
}

namespace {

// A rank that runs alone, whose loader rehearses.
struct Alone {
  ScriptedGroup scripted;
  std::vector<float> weight = {1};
  DistributedDataParallel data_parallel{scripted.group, {{"weight", weight, {1}}}};
  std::vector<double> numbers = {1, 2, 3};
  DistributedSampler sampler{3, 0, 1, {.shuffle = false}};
};

}  // namespace

TEST_CASE("unused parameters of a rehearsal do not affect later steps") {
  const UnusedParameters unused = GENERATE(UnusedParameters::find, UnusedParameters::static_graph);
  ScriptedGroup scripted;
  std::vector<float> weight = {1};
  std::vector<float> bias = {1};
  DataParallelOptions options;
  options.unused = unused;
  DistributedDataParallel data_parallel(scripted.group, {{"weight", weight, {1}}, {"bias", bias, {1}}}, options);
  const std::vector<double> numbers = {1, 2, 3};
  const DistributedSampler sampler(3, 0, 1);
  Rehearsal rehearsal(data_parallel);
  const DataLoader loader(numbers, sampler, {.batch_size = 2, .rehearse_last_batch = &rehearsal});
  for ([[maybe_unused]] const auto& batch : loader) {
    CHECK(data_parallel.unused_parameters().empty());
    data_parallel.mark_ready(0);
    if (!rehearsal.is_running()) data_parallel.mark_ready(1);
    data_parallel.finish();
    if (rehearsal.is_running()) CHECK(data_parallel.unused_parameters().size() == 1);
  }
  CHECK(data_parallel.unused_parameters().empty());
}

TEST_CASE("values, tensors and what save functions return are restored, also if the loop is left") {
  Alone alone;
  int counter = 5;
  std::vector<float> memory = {1, 2};
  std::vector<float> more = {3};
  std::string external = "before";
  std::vector<Tensor> state = {{"memory", memory, {2}}};
  Tensor tensor = {"more", more, {1}};
  Rehearsal rehearsal(alone.data_parallel, counter, state, tensor,
                      [&] { return [&external, before = external] { external = before; }; });
  const DataLoader loader(alone.numbers, alone.sampler, {.batch_size = 2, .rehearse_last_batch = &rehearsal});
  const bool is_left = GENERATE(false, true);
  std::size_t batches = 0;
  for (const auto& batch : loader) {
    if (!rehearsal.is_running()) {
      CHECK(alone.weight[0] == 1);
      ++batches;
      continue;
    }
    CHECK(batch.indices == std::vector<std::int64_t>{2});
    CHECK(loader.size() == 2);
    ++counter;
    memory[1] = 0;
    more[0] = 0;
    external = "after";
    alone.weight[0] = 9;
    if (is_left) break;
  }
  CHECK(batches == (is_left ? 0 : 2));
  CHECK(counter == 5);
  CHECK(memory == std::vector<float>{1, 2});
  CHECK(more[0] == 3);
  CHECK(external == "before");
  CHECK(alone.weight[0] == 1);
  for (const auto& batch : loader) CHECK(batch.indices != std::vector<std::int64_t>());
  CHECK(rehearsal.was_made());
}

TEST_CASE("an optimizer that steps as gradients arrive steps again after the rehearsal") {
  Alone alone;
  Optimizer optimizer(alone.data_parallel, SgdOptions{.learning_rate = 1, .momentum = 0.5});
  Rehearsal rehearsal(alone.data_parallel);
  const DataLoader loader(alone.numbers, alone.sampler, {.batch_size = 2, .rehearse_last_batch = &rehearsal});
  std::vector<float> weights;
  for ([[maybe_unused]] const auto& batch : loader) {
    alone.data_parallel.gradient<float>(0)[0] = 1;
    alone.data_parallel.mark_ready(0);
    optimizer.step(0);
    alone.data_parallel.finish();
    weights.push_back(alone.weight[0]);
  }
  CHECK(weights == std::vector<float>{0, 0, -1.5F});
}

TEST_CASE("consume() in a rehearsal throws invalid_argument unless the Rehearsal was given the sampler") {
  Alone alone;
  const bool is_named = GENERATE(false, true);
  const auto train = [&](Rehearsal& rehearsal) {
    const DataLoader loader(alone.numbers, alone.sampler, {.batch_size = 2, .rehearse_last_batch = &rehearsal});
    for (const auto& batch : loader) alone.sampler.consume(std::ssize(batch.indices));
  };
  if (is_named) {
    Rehearsal rehearsal(alone.data_parallel, alone.sampler);
    train(rehearsal);
    CHECK(alone.sampler.size() == 0);
    return;
  }
  Rehearsal rehearsal(alone.data_parallel);
  expect_error(ErrorKind::invalid_argument, {"consume()", "is_running()"}, [&] { train(rehearsal); });
}

TEST_CASE("an exception during the rehearsal restores the earlier state, except within a step") {
  Alone alone;
  Rehearsal rehearsal(alone.data_parallel);
  const DataLoader loader(alone.numbers, alone.sampler, {.batch_size = 2, .rehearse_last_batch = &rehearsal});
  CHECK_THROWS_AS(
      [&] {
        for (const auto& batch : loader) {
          alone.weight[0] = 9;
          if (batch.samples.size() == 1) throw std::runtime_error("a batch of one");
        }
      }(),
      std::runtime_error);
  CHECK(alone.weight[0] == 1);
  CHECK_FALSE(rehearsal.is_running());
  CHECK(alone.data_parallel.synchronizes());
}

TEST_CASE("an exception from a sample of the rehearsal names the rehearsal") {
  struct Damaged {
    std::int64_t size() const { return 3; }
    double operator[](std::int64_t index) const {
      if (index == 2) throw std::out_of_range("no such page");
      return 0;
    }
  };
  Alone alone;
  const Damaged damaged;
  Rehearsal rehearsal(alone.data_parallel);
  const DataLoader loader(damaged, alone.sampler, {.batch_size = 2, .rehearse_last_batch = &rehearsal});
  expect_error(ErrorKind::unavailable, {"rehearsal of the last batch: sample 2: no such page"},
               [&] { static_cast<void>(loader.begin()); });
  CHECK_FALSE(rehearsal.is_running());
}

TEST_CASE("a rehearsal within a step or with Join is rejected") {
  Alone alone;
  Rehearsal rehearsal(alone.data_parallel);
  const DataLoader loader(alone.numbers, alone.sampler, {.batch_size = 2, .rehearse_last_batch = &rehearsal});
  SECTION("in a step") {
    const NoSync local = alone.data_parallel.no_sync();
    alone.data_parallel.mark_ready(0);
    expect_error(ErrorKind::invalid_argument, {"in the middle of a step"}, [&] { static_cast<void>(loader.begin()); });
    alone.data_parallel.finish();
  }
  SECTION("in a window") {
    {
      const NoSync local = alone.data_parallel.no_sync();
      alone.data_parallel.mark_ready(0);
      alone.data_parallel.finish();
    }
    expect_error(ErrorKind::invalid_argument, {"accumulation window"}, [&] { static_cast<void>(loader.begin()); });
  }
  CHECK_FALSE(rehearsal.is_running());
}

TEST_CASE("ranks with a Join do not rehearse") {
  RankThreads(make_cpu_backend, 2).all_fail(ErrorKind::invalid_argument, {"Join exists"}, [](RankThreads::Rank& self) {
    std::vector<float> weight = {1};
    DistributedDataParallel data_parallel(self.group(), {{"weight", weight, {1}}});
    const Join join(data_parallel);
    const std::vector<double> numbers(6);
    const DistributedSampler sampler(6, self.group());
    Rehearsal rehearsal(data_parallel);
    const DataLoader loader(numbers, sampler, {.batch_size = 2, .rehearse_last_batch = &rehearsal});
    static_cast<void>(loader.begin());
  });
}

TEST_CASE("a rank that does not rehearse is a mismatch") {
  RankThreads(make_cpu_backend, 2)
      .all_fail(ErrorKind::mismatch, {"rehearsal of the last batch", "step 1"}, [](RankThreads::Rank& self) {
        std::vector<float> weight = {1};
        DistributedDataParallel data_parallel(self.group(), {{"weight", weight, {1}}});
        const std::vector<double> numbers(6);
        const DistributedSampler sampler(6, self.group());
        Rehearsal rehearsal(data_parallel);
        LoaderOptions options{.batch_size = 2};
        if (self.rank() == 0) options.rehearse_last_batch = &rehearsal;
        for ([[maybe_unused]] const auto& batch : DataLoader(numbers, sampler, options)) {
          data_parallel.mark_ready(0);
          data_parallel.finish();
        }
      });
}

#include <ddp/gradient_accumulation.h>
#include <ddp/join.h>
#include <ddp/local_sgd.h>
#include <ddp/optimizer.h>

#include <cmath>

#include "runtime/backend/backends.h"
#include "support/catch.h"
#include "support/expect_error.h"
#include "support/placed_memory.h"
#include "support/rank_threads.h"
#include "support/scripted_backend.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

namespace {

// Has one weight. Its gradient in a step is the rank's sample.
struct Training {
  PlacedMemory memory;
  Buffer weight = memory.make(std::vector<double>(40));
  Buffer buffer = memory.make(std::vector<double>(1));
  DistributedDataParallel data_parallel;
  Optimizer optimizer;

  explicit Training(ProcessGroup& group, bool sharded = false, DeviceType device = DeviceType::cpu)
      : memory(group, device),
        data_parallel(group, {{"weight", weight, {40}}}, options(sharded)),
        optimizer(data_parallel, SgdOptions{.learning_rate = 1, .momentum = 0.5}) {}

  DataParallelOptions options(bool sharded) {
    DataParallelOptions result;
    result.model_buffers = {{"buffer", buffer, {1}}};
    result.stream = memory.stream();
    if (sharded) result.exchange = ShardOptimizer{};
    return result;
  }
  void backward(double gradient) {
    memory.add(data_parallel.gradient(0), gradient);
    data_parallel.mark_ready(0);
    data_parallel.finish();
  }
  double gradient() { return memory.first(data_parallel.gradient(0)); }
};

void require_near(double value, double expected) {
  require(std::abs(value - expected) < 1e-9, std::to_string(value) + " is not " + std::to_string(expected));
}

// Each rank takes its own number of steps, and joins the steps of the others afterwards.
void shadow_steps(RankThreads::Rank& self, DeviceType device, bool sharded, bool by_initial_size,
                  const std::vector<int>& steps) {
  const auto size = static_cast<int>(steps.size());
  Training training(self.group(), sharded, device);
  JoinOptions options;
  options.divide_by_initial_size = by_initial_size;
  Join join(
      training.data_parallel, [&] { training.optimizer.step(); }, options);
  for (int step = 0; step < steps[static_cast<std::size_t>(self.rank())]; ++step) {
    join.begin_step();
    training.data_parallel.zero_gradients();
    training.backward(step + 10.0 * self.rank());
    training.optimizer.step();
  }
  join.finish();

  double weight = 0;
  double momentum = 0;
  for (int step = 0; step < 5; ++step) {
    double sum = 0;
    int active = 0;
    for (int rank = 0; rank < size; ++rank) {
      if (step >= steps[static_cast<std::size_t>(rank)]) continue;
      sum += step + 10.0 * rank;
      ++active;
    }
    if (active == 0) break;
    momentum = 0.5 * momentum + sum / (by_initial_size ? size : active);
    weight -= momentum;
  }
  require_near(training.memory.numbers(training.weight)[39], weight);
  training.data_parallel.verify_parameters();
}

}  // namespace

TEST_CASE("ranks with fewer steps shadow the others with any sharding and divisor") {
  for (const MemoryUnderTest& memory : memories_in_software()) {
    for (const bool sharded : {false, true}) {
      for (const bool by_initial_size : {true, false}) {
        for (const std::vector<int>& steps : {std::vector<int>{3, 3}, {1, 4}, {5, 0, 2}, {0, 0}, {2, 3, 1, 4}}) {
          RankThreads(memory.make, static_cast<int>(steps.size())).all_succeed([&](RankThreads::Rank& self) {
            shadow_steps(self, memory.device, sharded, by_initial_size, steps);
          });
        }
      }
    }
  }
}

TEST_CASE("ranks that finish early end with the parameters and buffers of the last rank") {
  const MemoryUnderTest memory = GENERATE(from_range(memories_in_software()));
  RankThreads(memory.make, 3).all_succeed([&](RankThreads::Rank& self) {
    Training training(self.group(), false, memory.device);
    const auto buffer = [&] { return training.memory.first(training.buffer); };
    JoinOptions options;
    options.broadcast_buffers = true;
    Join join(training.data_parallel, nullptr, options);
    training.memory.fill(training.buffer, self.rank());
    for (int step = 0; step < (self.rank() == 1 ? 3 : 1); ++step) {
      join.begin_step();
      require(buffer() == (step == 0 ? 2 : 1), "buffer");
      if (self.rank() == 1) training.memory.fill(training.buffer, 1);
      training.data_parallel.zero_gradients();
      training.backward(3);
      training.optimizer.step();
    }
    join.finish();
    require(join.active_ranks() == std::vector<int>{1}, "active");
    require(buffer() == 1, "last buffer");
    training.data_parallel.verify_parameters();
    // Afterwards, steps work as before.
    training.data_parallel.zero_gradients();
    training.backward(self.rank());
    require_near(training.gradient(), 1);
  });
}

TEST_CASE("an accumulation window cut short by the end of the data is not lost") {
  const bool by_initial_size = GENERATE(true, false);
  const MemoryUnderTest memory = GENERATE(from_range(memories_in_software()));
  RankThreads(memory.make, 2).all_succeed([&](RankThreads::Rank& self) {
    Training training(self.group(), false, memory.device);
    JoinOptions options;
    options.divide_by_initial_size = by_initial_size;
    Join join(
        training.data_parallel, [&] { training.optimizer.step(); }, options);
    Accumulation window = training.data_parallel.accumulate(2);
    // The micro-steps are 1, 1 | 1 on rank 0, and 10, 10 | 10, 10 | 10 on rank 1.
    double sum = 0;
    for (int i = 0; i < (self.rank() == 0 ? 3 : 5); ++i) {
      window.begin();
      join.begin_step();
      training.memory.add(training.data_parallel.gradient(0), self.rank() == 0 ? 1 : 10);
      training.data_parallel.mark_ready(0);
      if (!window.finish()) continue;
      sum += training.gradient();
      training.optimizer.step();
    }
    join.finish();
    training.data_parallel.verify_parameters();
    const double first = (1 + 1 + 10 + 10) / 4.0;
    const double second = (1 + 10 + 10) / (by_initial_size ? 4.0 : 3.0);
    const double third = 10 / (by_initial_size ? 2.0 : 1.0);
    require_near(sum, self.rank() == 0 ? first : first + second);
    const double b1 = first;
    const double b2 = 0.5 * b1 + second;
    const double b3 = 0.5 * b2 + third;
    require_near(training.memory.first(training.weight), -(b1 + b2 + b3));
  });
}

TEST_CASE("ranks that step locally have nothing to join") {
  ScriptedGroup scripted;
  Training training(scripted.group);
  const LocalSgd local(training.data_parallel, {});
  Join join(training.data_parallel);
  expect_error(ErrorKind::invalid_argument, {"LocalSgd"}, [&] { join.begin_step(); });
}

TEST_CASE("all ranks stop when the first one has no more data if requested") {
  RankThreads(make_cpu_backend, 3)
      .all_fail(ErrorKind::aborted, {"rank 1 has no more data at step 3", "drop_last"}, [](RankThreads::Rank& self) {
        Training training(self.group());
        JoinOptions options;
        options.throw_on_early_end = true;
        Join join(training.data_parallel, nullptr, options);
        for (int step = 0; step < (self.rank() == 1 ? 2 : 4); ++step) {
          join.begin_step();
          training.data_parallel.zero_gradients();
          training.backward(1);
        }
        join.finish();
      });
}

TEST_CASE("wrong use of Join is reported") {
  RankThreads(make_cpu_backend, 2).all_succeed([](RankThreads::Rank& self) {
    Training sharded(self.group(), true);
    require(outcome_of([&] { Join(sharded.data_parallel); }).kind == ErrorKind::invalid_argument, "sharded");
    Training training(self.group());
    Join join(training.data_parallel, nullptr);
    {
      if (self.rank() == 0) {
        const NoSync held = training.data_parallel.no_sync();
        const RankOutcome outcome = outcome_of([&] { join.begin_step(); });
        require(outcome.kind == ErrorKind::mismatch && outcome.message.find("rank 0 does not") != std::string::npos,
                outcome.message);
      } else {
        require(outcome_of([&] { join.begin_step(); }).kind == ErrorKind::mismatch, "not told");
      }
    }
    training.data_parallel.mark_ready(0);
    require(outcome_of([&] { join.begin_step(); }).kind == ErrorKind::invalid_argument, "in a step");
    training.data_parallel.finish();
    join.finish();
    require(outcome_of([&] { join.begin_step(); }).kind == ErrorKind::invalid_argument, "after the end");
  });
}

#include <ddp/gradient_accumulation.h>
#include <ddp/optimizer.h>

#include <cmath>
#include <cstring>

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

// Has parameters of three types, whose gradients depend on step, rank and place.
class Model {
 public:
  Model(ProcessGroup& group, const DataParallelOptions& options, DeviceType device = DeviceType::cpu)
      : memory(group, device),
        data_parallel(group,
                      {{"a", memory.make(std::vector<float>(300, 1)), {30, 10}},
                       {"b", memory.make(std::vector<double>(7, -1)), {7}},
                       {"c", memory.make(std::vector<BFloat16>(200, BFloat16(0.5F))), {2, 100}},
                       {"d", memory.make(std::vector<float>(50, 2)), {50}}},
                      on_stream(options)) {}

  void backward(int step, int rank) {
    mark_all(step, rank);
    data_parallel.finish();
  }
  void mark_all(int step, int rank) {
    data_parallel.zero_gradients();
    for (std::size_t i = 0; i < 4; ++i) {
      memory.set(data_parallel.gradient(i),
                 [&](std::size_t k) { return std::sin(static_cast<double>(k * 3 + i) + step * 1.7) + 0.25 * rank; });
      data_parallel.mark_ready(i);
    }
  }

  std::string bytes() {
    std::string result;
    for (const Tensor& tensor : data_parallel.parameters()) result += memory.bytes(tensor.data);
    return result;
  }

 private:
  DataParallelOptions on_stream(DataParallelOptions options) const {
    options.stream = memory.stream();
    return options;
  }

 public:
  PlacedMemory memory;
  DistributedDataParallel data_parallel;
};

std::size_t state_bytes(Optimizer& optimizer) {
  std::size_t sum = 0;
  for (const TensorShard& shard : optimizer.state()) sum += shard.data.bytes();
  return sum;
}

void compare_with_sharded(RankThreads::Rank& self, const MemoryUnderTest& memory, const Optimizer::Options& chosen) {
  DataParallelOptions options{.buckets = {.first_bytes = 64, .bytes = 1000}};
  Model whole(self.group(), options, memory.device);
  options.exchange = ShardOptimizer{};
  Model sharded(self.group(), options, memory.device);
  Optimizer whole_optimizer(whole.data_parallel, chosen);
  Optimizer sharded_optimizer(sharded.data_parallel, chosen);
  for (int step = 0; step < 20; ++step) {
    whole.backward(step, self.rank());
    sharded.backward(step, self.rank());
    const double norm = whole.data_parallel.clip_gradients(5);
    const double same = sharded.data_parallel.clip_gradients(5);
    require(std::abs(norm - same) < 1e-9 * norm, std::to_string(norm) + " and " + std::to_string(same));
    whole_optimizer.step();
    sharded_optimizer.step();
  }
  for (std::size_t i = 0; i < 4; ++i) {
    const Tensor& a = whole.data_parallel.parameters()[i];
    if (a.data.type != DataType::f32) continue;
    const std::vector<double> x = whole.memory.numbers(a.data);
    const std::vector<double> y = sharded.memory.numbers(sharded.data_parallel.parameters()[i].data);
    for (std::size_t k = 0; k < x.size(); ++k) {
      require(std::abs(x[k] - y[k]) <= 1e-6 * std::abs(x[k]) + 1e-7, "element " + std::to_string(k));
    }
  }
  for (const std::string& other : self.group().all_gather_bytes(sharded.bytes())) {
    require(other == sharded.bytes(), "ranks differ");
  }
  if (self.group().size() == 4) {
    require(2 * state_bytes(sharded_optimizer) < state_bytes(whole_optimizer), "as much state");
  }
}

}  // namespace

TEST_CASE("a sharded optimizer gives the same parameters with a share of the state", "[slow]") {
  const std::vector<Optimizer::Options> all = {SgdOptions{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01},
                                               AdamOptions{.learning_rate = 0.01, .weight_decay = 0.1}};
  for (const MemoryUnderTest& memory : memories_under_test()) {
    for (const Optimizer::Options& chosen : all) {
      for (const int size : memory.ranks({1, 2, 3, 4})) {
        INFO(size << " ranks in " << memory.name);
        RankThreads(memory.make, size).all_succeed([&](RankThreads::Rank& self) {
          compare_with_sharded(self, memory, chosen);
        });
      }
    }
  }
}

TEST_CASE("an optimizer steps alike in GPU and host memory") {
  const std::vector<Optimizer::Options> all = {
      SgdOptions{.learning_rate = 0.1}, SgdOptions{.learning_rate = 0.1, .momentum = 0.9, .nesterov = true},
      AdamOptions{.learning_rate = 0.01, .weight_decay = 0.1, .decoupled = false},
      AdamOptions{.learning_rate = 0.01, .weight_decay = 0.1}};
  for (const Optimizer::Options& chosen : all) {
    std::vector<std::vector<double>> results;
    for (const MemoryUnderTest& memory : memories_under_test()) {
      std::vector<double> result;
      // With two ranks, the mean does not depend on where f16 and bf16 are rounded.
      RankThreads(memory.make, memory.ranks({2})[0]).all_succeed([&](RankThreads::Rank& self) {
        Model model(self.group(), {}, memory.device);
        Optimizer optimizer(model.data_parallel, chosen);
        for (int step = 0; step < 10; ++step) {
          model.mark_all(step, on_real_gpu() ? 0 : self.rank());
          if (step % 2 == 1) {
            for (std::size_t i = 0; i < 4; ++i) optimizer.step(i);
          }
          model.data_parallel.finish();
          if (step % 2 == 0) optimizer.step();
        }
        std::vector<Buffer> buffers;
        for (const Tensor& parameter : model.data_parallel.parameters()) buffers.push_back(parameter.data);
        for (const TensorShard& shard : optimizer.state()) {
          require(shard.data.device ==
                      (shard.name.starts_with("optimizer.steps") || shard.name.starts_with("optimizer.learning_rate")
                           ? DeviceType::cpu
                           : memory.device),
                  shard.name + " is in other memory");
          buffers.push_back(shard.data);
        }
        for (const Buffer& buffer : buffers) {
          const std::vector<double> numbers = model.memory.numbers(buffer);
          if (self.rank() == 0) result.insert(result.end(), numbers.begin(), numbers.end());
        }
      });
      results.push_back(result);
    }
    REQUIRE((results.size() == 2 && results[0].size() == results[1].size() && !results[0].empty()));
    // A GPU may round the quotients of Adam differently. The GPU in software does not.
    const double tolerance = on_real_gpu() ? 1e-2 : 0;
    for (std::size_t i = 0; i < results[0].size(); ++i) {
      INFO("number " << i << " of " << chosen.index());
      REQUIRE(std::abs(results[0][i] - results[1][i]) <= tolerance * std::abs(results[0][i]));
    }
  }
}

TEST_CASE("an optimizer steps only on synchronised gradients and uses its current learning rate") {
  ScriptedGroup scripted;
  Model model(scripted.group, {});
  Optimizer optimizer(model.data_parallel, SgdOptions{.learning_rate = 0});
  expect_error(ErrorKind::invalid_argument, {"Optimizer::step", "finish() was not called"}, [&] { optimizer.step(); });
  model.backward(0, 0);
  const std::string before = model.bytes();
  optimizer.step();
  CHECK(model.bytes() == before);
  optimizer.set_learning_rate(0.5);
  CHECK(optimizer.learning_rate() == 0.5);
  optimizer.step();
  CHECK(model.bytes() != before);
  expect_error(ErrorKind::invalid_argument, {"set_learning_rate", "must be 0 or more"},
               [&] { optimizer.set_learning_rate(-1); });
  expect_error(ErrorKind::invalid_argument, {"Optimizer", "beta1"},
               [&] { Optimizer(model.data_parallel, AdamOptions{.beta1 = 1}); });
}

TEST_CASE("an unused parameter stays unchanged, and its step does not count") {
  ScriptedGroup scripted;
  std::vector<float> used(3, 1);
  std::vector<float> unused(3, 1);
  DataParallelOptions options;
  options.unused = UnusedParameters::find;
  DistributedDataParallel data_parallel(scripted.group, {{"used", used, {3}}, {"unused", unused, {3}}}, options);
  Optimizer optimizer(data_parallel, AdamOptions{.weight_decay = 0.5});
  data_parallel.mark_ready(0);
  data_parallel.finish();
  optimizer.step();
  CHECK(used[0] != 1);
  CHECK(unused[0] == 1);
  const std::vector<TensorShard> state = optimizer.state();
  REQUIRE(state.size() == 6);
  CHECK(state[0].name == "optimizer.m.used");
  CHECK(state[3].name == "optimizer.v.unused");
  CHECK(state[4].name == "optimizer.steps");
  CHECK(state[4].data.as<std::int64_t>()[0] == 1);
  CHECK(state[4].data.as<std::int64_t>()[1] == 0);
  CHECK(state[5].name == "optimizer.learning_rate");
  state[5].data.as<double>()[0] = 0.25;  // a checkpoint restores it like this
  CHECK(optimizer.learning_rate() == 0.25);
  used = {1, 1, 1};
  data_parallel.gradient<float>(0)[0] = 1;
  data_parallel.mark_ready(0);
  data_parallel.finish();
  optimizer.step();
  CHECK(used[0] < 0.9F - 0.02F);  // the step uses the rate that was loaded, not 0.001
}

TEST_CASE("parameters without elements have no optimizer state, sharded or not") {
  for (const bool sharded : {false, true}) {
    ScriptedGroup scripted;
    std::vector<float> weight(3);
    DataParallelOptions options;
    if (sharded) options.exchange = ShardOptimizer{};
    DistributedDataParallel data_parallel(
        scripted.group, {{"weight", weight, {3}}, {"none", {nullptr, 0, DataType::f32}, {0}}}, options);
    Optimizer optimizer(data_parallel, AdamOptions{});
    const std::vector<TensorShard> state = optimizer.state();
    REQUIRE(state.size() == 4);
    CHECK(state[0].name == "optimizer.m.weight");
    CHECK(state[2].name == "optimizer.steps");
  }
}

TEST_CASE("updating parameters one by one as gradients arrive equals a whole step") {
  for (const MemoryUnderTest& memory : memories_under_test()) {
    INFO(memory.name);
    RankThreads(memory.make, memory.ranks({2})[0]).all_succeed([&](RankThreads::Rank& self) {
      DataParallelOptions options{.buckets = {.first_bytes = 64, .bytes = 1000}};
      Model whole(self.group(), options, memory.device);
      options.exchange = PriorityChunks{256};
      Model single(self.group(), options, memory.device);
      Optimizer whole_optimizer(whole.data_parallel, AdamOptions{});
      Optimizer single_optimizer(single.data_parallel, AdamOptions{});
      for (int step = 0; step < 5; ++step) {
        whole.backward(step, self.rank());
        whole_optimizer.step();
        single.mark_all(step, self.rank());
        for (std::size_t i = 0; i < 4; ++i) single_optimizer.step(i);
        single.data_parallel.finish();
        require(whole.bytes() == single.bytes(), "step " + std::to_string(step));
      }
      require(single.data_parallel.bucket_count() > whole.data_parallel.bucket_count(), "no chunks");
    });
  }
}

TEST_CASE("a parameter is updated once per step") {
  RankThreads(make_cpu_backend, 1).all_succeed([](RankThreads::Rank& self) {
    Model model(self.group(), {});
    Optimizer optimizer(model.data_parallel, SgdOptions{.learning_rate = 1});
    for (int step = 0; step < 2; ++step) {
      model.mark_all(step, 0);
      for (std::size_t i = 0; i < 3; ++i) optimizer.step(i);
      const std::string before = model.bytes();
      expect_error(ErrorKind::invalid_argument, {"'b'", "step(1)"}, [&] { optimizer.step(1); });
      model.data_parallel.finish();
      expect_error(ErrorKind::invalid_argument, {"'a'", "step(0)", "step() once for all"}, [&] { optimizer.step(); });
      require(model.bytes() == before, "stepped all the same");
    }
  });
}

TEST_CASE("waiting for a gradient that is not being reduced is rejected") {
  ScriptedGroup scripted;
  Model model(scripted.group, {});
  Optimizer optimizer(model.data_parallel, SgdOptions{});
  expect_error(ErrorKind::invalid_argument, {"wait: ", "'a' f32[30x10]", "Mark all parameters ready"},
               [&] { optimizer.step(0); });
  expect_error(ErrorKind::invalid_argument, {"no parameter 9"}, [&] { model.data_parallel.wait(9); });
  const NoSync local = model.data_parallel.no_sync();
  expect_error(ErrorKind::invalid_argument, {"not averaged in this step"}, [&] { optimizer.step(0); });
  DataParallelOptions options;
  options.exchange = ShardOptimizer{};
  Model sharded(scripted.group, options);
  Optimizer other(sharded.data_parallel, SgdOptions{});
  expect_error(ErrorKind::invalid_argument, {"ShardOptimizer", "step()"}, [&] { other.step(0); });
  options = {.unused = UnusedParameters::find, .exchange = PriorityChunks{100}};
  expect_error(ErrorKind::invalid_argument, {"PriorityChunks cannot be combined with UnusedParameters::find"},
               [&] { Model(scripted.group, options); });
}

#include <ddp/gradient_accumulation.h>
#include <ddp/optimizer.h>

#include <cmath>
#include <cstring>

#include "runtime/backend/backends.h"
#include "support/catch.h"
#include "support/expect_error.h"
#include "support/rank_threads.h"
#include "support/scripted_backend.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

namespace {

// Has parameters of three types, whose gradients depend on step, rank and place.
class Model {
 public:
  Model(ProcessGroup& group, const DataParallelOptions& options)
      : data_parallel(group, {{"a", a_, {30, 10}}, {"b", b_, {7}}, {"c", c_, {2, 100}}, {"d", d_, {50}}}, options) {}

  void backward(int step, int rank) {
    mark_all(step, rank);
    data_parallel.finish();
  }
  void mark_all(int step, int rank) {
    data_parallel.zero_gradients();
    for (std::size_t i = 0; i < 4; ++i) {
      const Buffer gradient = data_parallel.gradient(i);
      for (std::size_t k = 0; k < gradient.count; ++k) {
        const double value = std::sin(static_cast<double>(k * 3 + i) + step * 1.7) + 0.25 * rank;
        if (gradient.type == DataType::f64) gradient.as<double>()[k] = value;
        if (gradient.type == DataType::f32) gradient.as<float>()[k] = static_cast<float>(value);
        if (gradient.type == DataType::bf16) gradient.as<BFloat16>()[k] = BFloat16(static_cast<float>(value));
      }
      data_parallel.mark_ready(i);
    }
  }

  std::string bytes() const {
    std::string result;
    for (const Tensor& tensor : data_parallel.parameters()) {
      result.append(static_cast<const char*>(tensor.data.data), tensor.data.bytes());
    }
    return result;
  }

 private:
  std::vector<float> a_ = std::vector<float>(300, 1);
  std::vector<double> b_ = std::vector<double>(7, -1);
  std::vector<BFloat16> c_ = std::vector<BFloat16>(200, BFloat16(0.5F));
  std::vector<float> d_ = std::vector<float>(50, 2);

 public:
  DistributedDataParallel data_parallel;
};

std::size_t state_bytes(Optimizer& optimizer) {
  std::size_t sum = 0;
  for (const TensorShard& shard : optimizer.state()) sum += shard.data.bytes();
  return sum;
}

}  // namespace

TEST_CASE("a sharded optimizer gives the same parameters with a share of the state") {
  const std::vector<Optimizer::Options> all = {SgdOptions{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01},
                                               AdamOptions{.learning_rate = 0.01, .weight_decay = 0.1}};
  for (const Optimizer::Options& chosen : all) {
    for (const int size : {1, 2, 3, 4}) {
      INFO(size << " ranks");
      RankThreads(make_cpu_backend, size).all_succeed([&](RankThreads::Rank& self) {
        DataParallelOptions options{.buckets = {.first_bytes = 64, .bytes = 1000}};
        Model whole(self.group(), options);
        options.exchange = ShardOptimizer{};
        Model sharded(self.group(), options);
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
          const Tensor& b = sharded.data_parallel.parameters()[i];
          if (a.data.type != DataType::f32) continue;
          for (std::size_t k = 0; k < a.data.count; ++k) {
            const float x = a.data.as<float>()[k];
            const float y = b.data.as<float>()[k];
            require(std::abs(x - y) <= 1e-6F * std::abs(x) + 1e-7F, "element " + std::to_string(k));
          }
        }
        for (const std::string& other : self.group().all_gather_bytes(sharded.bytes())) {
          require(other == sharded.bytes(), "ranks differ");
        }
        if (size == 4) {
          require(2 * state_bytes(sharded_optimizer) < state_bytes(whole_optimizer), "as much state");
        }
      });
    }
  }
}

TEST_CASE("an optimizer steps on synchronised gradients only and follows its learning rate") {
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

TEST_CASE("a parameter that nobody used stays as it is and its step does not count") {
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

TEST_CASE("parameters that are updated one by one, as their gradients come, are those of a whole step") {
  RankThreads(make_cpu_backend, 2).all_succeed([](RankThreads::Rank& self) {
    DataParallelOptions options{.buckets = {.first_bytes = 64, .bytes = 1000}};
    Model whole(self.group(), options);
    options.exchange = PriorityChunks{256};
    Model single(self.group(), options);
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

TEST_CASE("a parameter is updated once a step") {
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

TEST_CASE("a gradient that is not under way cannot be waited for") {
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

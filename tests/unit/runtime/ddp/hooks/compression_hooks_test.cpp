#include <ddp/compression_hooks.h>
#include <ddp/distributed_data_parallel.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "runtime/backend/backends.h"
#include "support/catch.h"
#include "support/expect_error.h"
#include "support/placed_memory.h"
#include "support/rank_threads.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

namespace {

using MakeHook = std::function<std::shared_ptr<CommunicationHook>()>;

// Has a matrix, a vector and an f64 matrix, whose gradients each rank draws for itself. They fill two buckets or more.
class Model {
 public:
  Model(ProcessGroup& group, std::shared_ptr<CommunicationHook> hook, DeviceType device)
      : group_(group), memory_(group, device), data_parallel_(group, tensors(), options(std::move(hook))) {}

  // Takes a step. Adds the plain mean of its gradients to one sum, and the actual result to another one.
  void step(int step) {
    for (std::size_t i = 0; i < 3; ++i) {
      const Buffer gradient = data_parallel_.gradient(i);
      for (std::size_t k = 0; k < gradient.count; ++k) {
        double mean = 0;
        for (int rank = 0; rank < group_.size(); ++rank) mean += drawn(rank, step, i, k) / group_.size();
        exact_[i][k] += mean;
      }
      memory_.set(gradient, [&](std::size_t k) { return drawn(group_.rank(), step, i, k); });
    }
    for (const std::size_t i : {2, 1, 0}) data_parallel_.mark_ready(i);
    data_parallel_.finish();
    for (std::size_t i = 0; i < 3; ++i) {
      const std::vector<double> values = memory_.numbers(data_parallel_.gradient(i));
      for (std::size_t k = 0; k < values.size(); ++k) sums_[i][k] += values[k];
    }
  }

  // Returns the largest distance of the result from the plain mean, both divided by `steps`, for parameter i.
  double distance(std::size_t i, int steps) const {
    double largest = 0;
    for (std::size_t k = 0; k < exact_[i].size(); ++k) {
      largest = std::max(largest, std::abs(exact_[i][k] - sums_[i][k]) / steps);
    }
    return largest;
  }
  std::vector<double> gradient(std::size_t i) { return memory_.numbers(data_parallel_.gradient(i)); }
  double bytes() const { return data_parallel_.statistics().bytes; }
  DistributedDataParallel& data_parallel() { return data_parallel_; }
  // Requires that the gradients are bit-identical on all ranks.
  void require_equal_on_all_ranks() {
    std::string mine;
    for (std::size_t i = 0; i < 3; ++i) mine += memory_.bytes(data_parallel_.gradient(i));
    for (const std::string& other : group_.all_gather_bytes(mine)) require(other == mine, "ranks differ");
  }

 private:
  DataParallelOptions options(std::shared_ptr<CommunicationHook> hook) const {
    DataParallelOptions result;
    result.stream = memory_.stream();
    result.buckets.first_bytes = 1;
    result.exchange = std::move(hook);
    return result;
  }
  std::vector<Tensor> tensors() {
    return {{"matrix", memory_.make(std::vector<float>(2000)), {40, 50}},
            {"vector", memory_.make(std::vector<float>(33)), {33}},
            {"double", memory_.make(std::vector<double>(600)), {20, 30}}};
  }
  // Returns an element of a gradient that is nearly of rank 2.
  static double drawn(int rank, int step, std::size_t i, std::size_t k) {
    const std::size_t columns = i == 2 ? 30 : 50;
    const auto row = static_cast<double>(k / columns + 1);
    const auto column = static_cast<double>(k % columns);
    const double noise = 0.01 * std::sin(static_cast<double>(k * 7919) + 31.0 * step + rank);
    return row * 0.02 - std::sin(row) * column * 0.01 + 0.1 * rank + noise;
  }

  ProcessGroup& group_;
  PlacedMemory memory_;
  std::vector<std::vector<double>> exact_ = {std::vector<double>(2000), std::vector<double>(33),
                                             std::vector<double>(600)};
  std::vector<std::vector<double>> sums_ = exact_;
  DistributedDataParallel data_parallel_;
};

constexpr double kPlainBytes = 4 * (2000 + 33) + 8 * 600;

// Checks the hook after one step and, if it feeds errors back, the average of many steps.
void check_hook(const MakeHook& make, double first_error, double late_error, double byte_share,
                const MemoryUnderTest& memory = host_memory()) {
  for (const int ranks : memory.ranks({1, 2, 3})) {
    INFO(ranks << " ranks in " << memory.name);
    RankThreads(memory.make, ranks).all_succeed([&](RankThreads::Rank& self) {
      Model model(self.group(), make(), memory.device);
      const int kSteps = memory.device == DeviceType::cuda ? 20 : 200;  // each step in software wakes many threads
      for (int step = 0; step < kSteps; ++step) {
        model.step(step);
        model.require_equal_on_all_ranks();
        for (std::size_t i = 0; i < 3 && step == 0; ++i) {
          require(model.distance(i, 1) <= first_error, "first: " + std::to_string(model.distance(i, 1)));
        }
      }
      for (std::size_t i = 0; i < 3; ++i) {
        require(model.distance(i, kSteps) <= late_error, "late: " + std::to_string(model.distance(i, kSteps)));
      }
      require(model.bytes() <= byte_share * kPlainBytes, std::to_string(model.bytes()) + " bytes");
    });
  }
}

// Returns the limit for the average of many steps in host memory, for the fewer steps in GPU memory.
double late(const MemoryUnderTest& memory, double late_error) {
  return memory.device == DeviceType::cuda ? 10 * late_error : late_error;
}

}  // namespace

TEST_CASE("half-precision hooks give the mean to the type's precision with half the bytes") {
  for (const MemoryUnderTest& memory : memories_under_test()) {
    check_hook([] { return make_half_hook(DataType::f16); }, 2e-3, 1e-3, 0.41, memory);
    check_hook([] { return make_half_hook(DataType::bf16); }, 1e-2, 5e-3, 0.41, memory);
  }
}

TEST_CASE("a half-precision hook gives the same mean in both memories, and one that fits does not overflow") {
  std::vector<std::string> results;
  for (const MemoryUnderTest& memory : memories_under_test()) {
    std::string result;
    RankThreads(memory.make, memory.ranks({2})[0]).all_succeed([&](RankThreads::Rank& self) {
      PlacedMemory placed(self.group(), memory.device);
      DataParallelOptions options;
      options.stream = placed.stream();
      options.exchange = make_half_hook(DataType::f16);
      DistributedDataParallel data_parallel(self.group(), {{"weight", placed.make(std::vector<float>(1000)), {1000}}},
                                            options);
      placed.set(data_parallel.gradient(0), [&](std::size_t k) {
        return k == 0 ? 100000.0 * (1 - self.rank()) : std::sin(static_cast<double>(k)) * (self.rank() + 1);
      });
      data_parallel.mark_ready(0);
      data_parallel.finish();
      const std::vector<double> mean = placed.numbers(data_parallel.gradient(0));
      require(self.group().size() != 2 || std::abs(mean[0] - 50000) < 50, "mean " + std::to_string(mean[0]));
      if (self.rank() == 0) result = placed.bytes(data_parallel.gradient(0));
    });
    results.push_back(result);
  }
  if (!on_real_gpu()) CHECK(results[0] == results[1]);
}

TEST_CASE("what top-k leaves out comes later") {
  for (const MemoryUnderTest& memory : memories_under_test()) {
    check_hook([] { return make_top_k_hook(0.1); }, 2, late(memory, 0.1), 0.2, memory);
    check_hook([] { return make_top_k_hook(1); }, 1e-6, 1e-6, 2, memory);
  }
}

TEST_CASE("top-k and PowerSGD give the same gradients in both memories") {
  const std::vector<std::pair<MakeHook, double>> hooks = {
      {[] { return make_top_k_hook(0.05); }, 0},
      {[] { return make_power_sgd_hook({.rank = 2, .start_step = 1, .least_compression = 1}); }, 1e-4}};
  for (const auto& [make, tolerance] : hooks) {
    std::vector<std::vector<double>> results;
    for (const MemoryUnderTest& memory : memories_under_test()) {
      std::vector<double>& result = results.emplace_back();
      RankThreads(memory.make, gpu_rank_counts({3})[0]).all_succeed([&, &make = make](RankThreads::Rank& self) {
        Model model(self.group(), make(), memory.device);
        for (int step = 0; step < 8; ++step) {
          model.step(step);
          if (self.rank() != 0) continue;
          for (std::size_t i = 0; i < 3; ++i) std::ranges::copy(model.gradient(i), std::back_inserter(result));
        }
      });
    }
    REQUIRE(results[0].size() == results[1].size());
    for (std::size_t k = 0; k < results[0].size(); ++k) {
      INFO("tolerance " << tolerance << ", element " << k);
      if (std::abs(results[0][k] - results[1][k]) > tolerance) REQUIRE(results[0][k] == results[1][k]);
    }
  }
}

TEST_CASE("what one bit leaves out comes later") {
  check_hook([] { return make_one_bit_hook(); }, 2, 0.3, 0.03);
}

TEST_CASE("one bit travels with the mean magnitude of its gradient") {
  RankThreads(make_cpu_backend, 2).all_succeed([](RankThreads::Rank& self) {
    std::vector<float> weight(3);
    DataParallelOptions options;
    options.exchange = make_one_bit_hook();
    DistributedDataParallel data_parallel(self.group(), {{"weight", weight, {3}}}, options);
    const auto step = [&](float a, float b, float c) {
      const std::span<float> gradient = data_parallel.gradient<float>(0);
      gradient[0] = a;
      gradient[1] = b;
      gradient[2] = c;
      data_parallel.mark_ready(0);
      data_parallel.finish();
      return gradient;
    };
    const auto first = step(1, -2, 6);  // it is sent as 3, -3, 3; the errors -2, 1, 3 are kept
    require(first[0] == 3 && first[1] == -3 && first[2] == 3, "first");
    const auto second = step(1, 1, 3);  // -1, 2, 6 are sent as -3, 3, 3
    require(second[0] == -3 && second[1] == 3 && second[2] == 3, "second");
  });
}

TEST_CASE("top-k keeps the largest and adds the others to the next step") {
  RankThreads(make_cpu_backend, 2).all_succeed([](RankThreads::Rank& self) {
    std::vector<float> weight(4);
    DataParallelOptions options;
    options.exchange = make_top_k_hook(0.25);
    DistributedDataParallel data_parallel(self.group(), {{"weight", weight, {4}}}, options);
    const auto step = [&](float value) {
      const std::span<float> gradient = data_parallel.gradient<float>(0);
      for (std::size_t i = 0; i < 4; ++i) gradient[i] = 0;
      gradient[static_cast<std::size_t>(self.rank())] = value;
      gradient[3] = 3;
      data_parallel.mark_ready(0);
      data_parallel.finish();
      return gradient;
    };
    const auto first = step(-2);
    require(first[0] == 0 && first[1] == 0 && first[3] == 3, "first");
    const auto second = step(-2);  // each rank has the values -4 and 3
    require(second[0] == -2 && second[1] == -2 && second[3] == 0, "second");
    const auto third = step(0);  // each rank has the values 6 and 0
    require(third[0] == 0 && third[3] == 6, "third");
  });
}

TEST_CASE("PowerSGD finds gradients of low rank and what it leaves out comes later") {
  for (const MemoryUnderTest& memory : memories_under_test()) {
    const auto check = [&](PowerSgdOptions options, double first_error, double late_error, double byte_share) {
      check_hook([options] { return make_power_sgd_hook(options); }, first_error, late(memory, late_error), byte_share,
                 memory);
    };
    check({.rank = 2, .start_step = 0}, 0.2, 0.01, 0.15);
    if (memory.device == DeviceType::cuda) continue;  // kernels with barriers are slow in software
    check({.rank = 1, .start_step = 0}, 1, 0.05, 0.1);
    // The first steps use the plain mean.
    check({.rank = 1, .start_step = 5}, 1e-6, 0.05, 0.2);
  }
}

TEST_CASE("a gradient that is zero at first does not stay so with PowerSGD") {
  for (const MemoryUnderTest& memory : memories_under_test()) {
    RankThreads(memory.make, gpu_rank_counts({2})[0]).all_succeed([&](RankThreads::Rank& self) {
      PlacedMemory placed(self.group(), memory.device);
      DataParallelOptions options;
      options.stream = placed.stream();
      options.exchange = make_power_sgd_hook({.rank = 2, .start_step = 0});
      DistributedDataParallel data_parallel(self.group(), {{"weight", placed.make(std::vector<float>(400)), {20, 20}}},
                                            options);
      for (const float value : {0.0F, 3.0F}) {
        placed.fill(data_parallel.gradient(0), value);
        data_parallel.mark_ready(0);
        data_parallel.finish();
        for (const double element : placed.numbers(data_parallel.gradient(0))) {
          require(std::abs(element - value) < 1e-4, std::to_string(element));
        }
      }
    });
  }
}

TEST_CASE("the one-bit hook says that it cannot compress gradients in GPU memory") {
  RankThreads(gpu_memory_under_test().make, 1).all_succeed([](RankThreads::Rank& self) {
    PlacedMemory placed(self.group(), DeviceType::cuda);
    DataParallelOptions options;
    options.stream = placed.stream();
    options.exchange = make_one_bit_hook();
    DistributedDataParallel data_parallel(self.group(), {{"weight", placed.make(std::vector<float>(4)), {4}}}, options);
    expect_error(ErrorKind::unavailable, {"one-bit hook", "computes in host memory"},
                 [&] { data_parallel.mark_ready(0); });
  });
}

TEST_CASE("wrong options of hooks are refused") {
  expect_error(ErrorKind::invalid_argument, {"f16 or bf16", "not as f32"}, [] { make_half_hook(DataType::f32); });
  expect_error(ErrorKind::invalid_argument, {"above 0", "not 0.0"}, [] { make_top_k_hook(0); });
  expect_error(ErrorKind::invalid_argument, {"at most 1", "1.5"}, [] { make_top_k_hook(1.5); });
  expect_error(ErrorKind::invalid_argument, {"rank must be 1 or more (0)"}, [] { make_power_sgd_hook({.rank = 0}); });
}

TEST_CASE("an overflow is of its step alone") {
  const auto check = [](const MakeHook& make, const MemoryUnderTest& memory) {
    RankThreads(memory.make, gpu_rank_counts({2})[0]).all_succeed([&](RankThreads::Rank& self) {
      PlacedMemory placed(self.group(), memory.device);
      DataParallelOptions options;
      options.stream = placed.stream();
      options.exchange = make();
      DistributedDataParallel data_parallel(self.group(), {{"weight", placed.make(std::vector<float>(64)), {8, 8}}},
                                            options);
      for (int step = 0; step < 6; ++step) {
        placed.set(data_parallel.gradient(0),
                   [&](std::size_t k) { return step == 2 && k == 5 ? std::numeric_limits<double>::infinity() : 1.0; });
        data_parallel.mark_ready(0);
        data_parallel.finish();
        require(data_parallel.gradients_are_finite() == (step != 2), "step " + std::to_string(step));
      }
      require(std::abs(placed.numbers(data_parallel.gradient(0))[0] - 1) < 0.5, "gradient");
    });
  };
  const auto power_sgd = [] { return make_power_sgd_hook({.rank = 1, .start_step = 0, .least_compression = 0.1}); };
  for (const MemoryUnderTest& memory : memories_under_test()) check(power_sgd, memory);
  check([] { return make_one_bit_hook(); }, host_memory());
}

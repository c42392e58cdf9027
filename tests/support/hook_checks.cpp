#include "support/hook_checks.h"

#include <ddp/distributed_data_parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/catch.h"
#include "support/rank_threads.h"

using namespace ddp;
using namespace ddp::test;

namespace {

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

}  // namespace

void ddp::test::check_hook(const MakeHook& make, double first_error, double late_error, double byte_share,
                           const MemoryUnderTest& memory) {
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

void ddp::test::check_both_memories(const MakeHook& make, double tolerance) {
  std::vector<std::vector<double>> results;
  for (const MemoryUnderTest& memory : memories_under_test()) {
    std::vector<double>& result = results.emplace_back();
    RankThreads(memory.make, gpu_rank_counts({3})[0]).all_succeed([&](RankThreads::Rank& self) {
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

void ddp::test::check_overflow(const MakeHook& make, const MemoryUnderTest& memory) {
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
}

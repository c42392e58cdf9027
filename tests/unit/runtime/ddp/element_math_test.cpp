#include "runtime/ddp/element_math.h"

#include <ddp/compression_hooks.h>
#include <ddp/distributed_data_parallel.h>
#include <ddp/error.h>
#include <ddp/gradient_accumulation.h>
#include <ddp/local_sgd.h>

#include <cmath>
#include <limits>
#include <mutex>
#include <set>
#include <vector>

#include "runtime/ddp/update_rules.h"
#include "support/catch.h"
#include "support/expect_error.h"
#include "support/gpu_ranks.h"
#include "support/placed_memory.h"
#include "support/rank_threads.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

namespace {

// Loads no kernels.
class NcclWithoutKernels : public NcclBackend {
 public:
  using NcclBackend::NcclBackend;
  GpuMath* gpu_math() override { return nullptr; }
};

std::unique_ptr<Backend> without_kernels(const BackendOptions& options, const std::shared_ptr<Store>& store) {
  return std::make_unique<NcclWithoutKernels>(options, store, gpu_libraries());
}

// Records the reductions of floating-point values that NCCL gets.
class RecordedNccl {
 public:
  RecordedNccl() {
    NcclApi& api = libraries_->nccl;
    replace(api.all_reduce,
            [this, real = api.all_reduce](const void* send, void* receive, std::size_t count, NcclType type, NcclOp op,
                                          NcclComm comm, CudaStreamHandle stream) {
              record(type, op);
              return real(send, receive, count, type, op, comm, stream);
            });
    replace(api.reduce, [this, real = api.reduce](const void* send, void* receive, std::size_t count, NcclType type,
                                                  NcclOp op, int root, NcclComm comm, CudaStreamHandle stream) {
      record(type, op);
      return real(send, receive, count, type, op, root, comm, stream);
    });
    replace(api.reduce_scatter,
            [this, real = api.reduce_scatter](const void* send, void* receive, std::size_t count, NcclType type,
                                              NcclOp op, NcclComm comm, CudaStreamHandle stream) {
              record(type, op);
              return real(send, receive, count, type, op, comm, stream);
            });
  }

  const Libraries& libraries() const { return libraries_; }
  std::set<NcclOp> ops() {
    const std::lock_guard lock(mutex_);
    return ops_;
  }

 private:
  void record(NcclType type, NcclOp op) {
    const std::lock_guard lock(mutex_);
    if (type == NcclType::f16 || type == NcclType::bf16 || type == NcclType::f32) ops_.insert(op);
  }

  const Libraries libraries_ = gpu_libraries();
  std::mutex mutex_;
  std::set<NcclOp> ops_;
};

// Averages the gradients of two parameters with each exchange, and requires the mean each time.
void average(RankThreads::Rank& self, const std::vector<GradientExchange>& exchanges) {
  PlacedMemory gpu(self.group(), DeviceType::cuda);
  const std::vector<Tensor> parameters = {{"weight", gpu.make(std::vector<float>(300)), {300}},
                                          {"bias", gpu.make(std::vector<Float16>(1024)), {1024}}};
  const auto ranks = static_cast<double>(self.group().size());
  const double mean = (ranks + 1) / 2;  // of the numbers from 1
  const double own = self.rank() + 1;
  for (const GradientExchange& exchange : exchanges) {
    DataParallelOptions options;
    options.stream = gpu.stream();
    options.exchange = exchange;
    DistributedDataParallel data_parallel(self.group(), parameters, options);
    const auto backward = [&](double value) {
      for (const std::size_t i : {1, 0}) {
        gpu.fill(data_parallel.gradient(i), value);
        data_parallel.mark_ready(i);
      }
      data_parallel.finish();
    };
    const auto require_mean = [&](const std::string& what) {
      for (const ParameterPiece& piece : data_parallel.owned()) {
        for (const double value : gpu.numbers(piece.gradient)) {
          require(std::abs(value - mean) < 1e-3, what + ": " + std::to_string(value));
        }
      }
    };
    backward(own);
    require_mean("a step");
    Accumulation window = data_parallel.accumulate(2);
    window.begin();
    backward(own);
    window.begin();
    backward(2 * own);  // the gradients hold the sum over the micro-steps, as backward leaves it
    window.finish();
    require_mean("a window");
    if (std::holds_alternative<ShardOptimizer>(exchange)) continue;
    LocalSgd local(data_parallel, {.period = 1});
    for (const Tensor& parameter : parameters) gpu.fill(parameter.data, own);
    local.average();
    for (const Tensor& parameter : parameters) {
      for (const double value : gpu.numbers(parameter.data)) require(std::abs(value - mean) < 1e-3, "local SGD");
    }
  }
}

template <typename T>
double squares_of(const std::vector<T>& values) {
  return sum_of_squares(values);
}

}  // namespace

TEST_CASE("the mean of gradients in GPU memory is a plain sum of scaled gradients") {
  for (const int size : gpu_rank_counts({2, 3})) {
    RecordedNccl nccl;
    ranks_over(nccl.libraries(), size).all_succeed([](RankThreads::Rank& self) {
      average(self, {AllReduce{}, ShardOptimizer{}});
    });
    CHECK(nccl.ops() == std::set<NcclOp>{NcclOp::sum});
  }
}

TEST_CASE("NCCL computes the mean itself if the driver loads no kernels") {
  for (const int size : gpu_rank_counts({2, 3})) {
    RankThreads(without_kernels, size).all_succeed([](RankThreads::Rank& self) { average(self, {AllReduce{}}); });
  }
}

TEST_CASE("a mixture of ranks with and without kernels is rejected on all ranks") {
  const auto make = [](const BackendOptions& options, const std::shared_ptr<Store>& store) {
    return options.rank == 1 ? without_kernels(options, store) : nccl_backend().make(options, store);
  };
  RankThreads(make, 2).all_fail(ErrorKind::mismatch, {"rank 1 has a GPU driver that cannot load"},
                                [](RankThreads::Rank& self) {
                                  PlacedMemory gpu(self.group(), DeviceType::cuda);
                                  DistributedDataParallel(self.group(), {{"w", gpu.make(std::vector<float>(3)), {3}}});
                                });
}

TEST_CASE("a function that needs kernels names the driver that cannot load them") {
  RankThreads(without_kernels, 1).all_succeed([](RankThreads::Rank& self) {
    PlacedMemory gpu(self.group(), DeviceType::cuda);
    DataParallelOptions options;
    options.stream = gpu.stream();
    const std::vector<Tensor> parameters = {{"w", gpu.make(std::vector<float>(3)), {3}}};
    DistributedDataParallel data_parallel(self.group(), parameters, options);
    data_parallel.mark_ready(0);
    data_parallel.finish();
    const auto expect = [](const std::string& what, const auto& action) {
      expect_error(ErrorKind::unavailable, {what, "GPU's driver", "Update the driver"}, action);
    };
    expect("clip_gradients", [&] { data_parallel.clip_gradients(1); });
    expect("scale_gradients", [&] { data_parallel.scale_gradients(2); });
    expect("gradients_are_finite", [&] { data_parallel.gradients_are_finite(); });
    expect("Optimizer", [&] { Optimizer(data_parallel, SgdOptions{}); });
    options.exchange = make_half_hook(DataType::f16);
    DistributedDataParallel compressed(self.group(), parameters, options);
    expect("half-precision hook", [&] { compressed.mark_ready(0); });
    options.exchange = ShardOptimizer{};
    expect("ShardOptimizer", [&] { DistributedDataParallel(self.group(), parameters, options); });
  });
}

TEST_CASE("elements are computed alike in host memory and in GPU memory") {
  std::vector<std::string> results;
  for (const MemoryUnderTest& memory : memories_under_test()) {
    RankThreads(memory.make, 1).all_succeed([&](RankThreads::Rank& self) {
      PlacedMemory placed(self.group(), memory.device);
      const ElementMath math(self.group(), placed.stream(), "test");
      std::vector<float> drawn(1500);
      for (std::size_t i = 0; i < drawn.size(); ++i) drawn[i] = std::sin(static_cast<float>(i)) * 3;
      const Buffer singles = placed.make(drawn);
      const Buffer halves = placed.make(std::vector<Float16>(1500));
      const Buffer brains = placed.make(std::vector<BFloat16>(1500));
      const Buffer kept = placed.make(std::vector<Float16>(1500));
      math.scale(singles, 0.3);
      math.convert(singles, halves, 0.7);
      math.convert(halves, brains, 3);
      math.copy(halves, kept);
      math.scale(halves, 1.0 / 3);
      const Buffer moment = placed.make(std::vector<float>(1500));
      const Buffer master = placed.make(std::vector<float>(1500));
      math.convert(brains, master, 1);
      const Buffer gradient = placed.make(std::vector<BFloat16>(1500));
      math.convert(kept, gradient, 1);
      math.update(SgdOptions{.learning_rate = 0.1, .momentum = 0.9}, 1, {brains, gradient, moment, {}, master, 0.25});
      for (const Buffer& none : {Buffer(nullptr, 0, DataType::f32, memory.device)}) {
        math.scale(none, 2);
        math.convert(none, none, 2);
        math.copy(none, none);
      }
      std::string result;
      for (const Buffer& buffer : {singles, halves, brains, kept, moment, master}) result += placed.bytes(buffer);
      results.push_back(result);
      // f16 values have few bits, so that each square and each sum is exact in double precision, in any order.
      const std::vector<Buffer> all = {kept, Buffer(nullptr, 0, DataType::f32, memory.device), kept};
      double squares = 0;
      for (const double value : placed.numbers(kept)) squares += 2 * value * value;
      require(math.sum_of_squares(all) == squares, "sum of squares");
      require(math.are_finite(all), "finite");
      const float infinity = std::numeric_limits<float>::infinity();
      placed.write(kept.slice(1499, 1), std::vector<Float16>{Float16(infinity)});
      require(!math.are_finite(all), "infinite");
    });
  }
  REQUIRE(results.size() == 2);
  CHECK(results[0] == results[1]);
}

TEST_CASE("the sum of squares is correct for each floating-point type and any number of elements") {
  for (const std::size_t count : {0, 1, 7, 8, 9, 100}) {
    const auto squares = static_cast<double>(count) * 2.25;
    CHECK(squares_of(std::vector<float>(count, 1.5F)) == squares);
    CHECK(squares_of(std::vector<double>(count, -1.5)) == squares);
    CHECK(squares_of(std::vector<Float16>(count, Float16(1.5F))) == squares);
    CHECK(squares_of(std::vector<BFloat16>(count, BFloat16(-1.5F))) == squares);
  }
}

TEST_CASE("the sum of squares is correct even if it exceeds the range of a float") {
  CHECK(squares_of(std::vector<float>(3, 1e30F)) == Approx(3e60));
  CHECK(squares_of(std::vector<float>{std::numeric_limits<float>::infinity()}) ==
        std::numeric_limits<double>::infinity());
}

TEST_CASE("the norm of integers is rejected") {
  expect_error(ErrorKind::invalid_argument, {"i32"}, [] { squares_of(std::vector<std::int32_t>(3)); });
}

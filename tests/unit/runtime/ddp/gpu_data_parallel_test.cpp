// Tests DistributedDataParallel with parameters in GPU memory. It is the GPU in software, or this computer's GPU
// (DDP_TEST_GPU=1).
#include <ddp/distributed_data_parallel.h>
#include <ddp/extension/framework_adapter.h>
#include <ddp/gradient_accumulation.h>
#include <ddp/local_sgd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>

#include "support/backends_under_test.h"
#include "support/catch.h"
#include "support/expect_error.h"
#include "support/gpu_ranks.h"
#include "support/placed_memory.h"
#include "support/rank_threads.h"

using namespace ddp;
using namespace ddp::test;

namespace {

// Holds two parameters on the GPU, and the stream on which the program computes.
struct GpuModel {
  static constexpr std::size_t kWeight = 300'000;
  static constexpr std::size_t kBias = 1'001;

  explicit GpuModel(ProcessGroup& group_)
      : group(group_),
        cuda(gpu_libraries()->cuda),
        stream(group),
        weight(group.allocate(kWeight, DataType::f32, DeviceType::cuda)),
        bias(group.allocate(kBias, DataType::f32, DeviceType::cuda)),
        parameters{{"weight", weight, {static_cast<std::int64_t>(kWeight)}},
                   {"bias", bias, {static_cast<std::int64_t>(kBias)}}} {}

  DataParallelOptions options() {
    DataParallelOptions result;
    result.stream = Stream::from_handle(stream.handle());
    result.buckets.first_bytes = 1;
    return result;
  }

  // Puts a copy on the stream that sets the whole buffer to this value.
  void set(const Buffer& buffer, float value) {
    std::vector<float>& values = written.emplace_back(buffer.count, value);
    require_cuda(cuda, cuda.copy_async(buffer.data, values.data(), buffer.bytes(), stream.handle()), "copy");
  }
  // Requires this value in the whole buffer when the work on the stream is done.
  void require_all(const Buffer& buffer, float expected, const std::string& what) {
    std::vector<float> values(buffer.count);
    group.copy(values, buffer, Stream::from_handle(stream.handle()));
    for (const float value : values) {
      if (std::abs(value - expected) <= 1e-5F) continue;
      require(false, what + " holds " + std::to_string(value) + ", not " + std::to_string(expected));
    }
  }

  ProcessGroup& group;
  const CudaApi cuda;
  ProgramStream stream;
  Memory weight;
  Memory bias;
  std::vector<Tensor> parameters;
  std::deque<std::vector<float>> written;  // must exist until the stream has copied it
};

void step(GpuModel& model, DistributedDataParallel& data_parallel, float gradient) {
  data_parallel.zero_gradients();
  model.set(data_parallel.gradient(1), gradient + 1);
  data_parallel.mark_ready(1);
  model.set(data_parallel.gradient(0), gradient);
  data_parallel.mark_ready(0);
  data_parallel.finish();
}

// Replaces the times on the GPU. A mark on the side stream comes 100 seconds after the mark before it, a mark on the
// program's stream one second.
class ScriptedTimes : public SideStream {
 public:
  explicit ScriptedTimes(std::unique_ptr<SideStream> real) : real_(std::move(real)) {}
  void* handle() const override { return real_->handle(); }
  void order(void* earlier, void* later) override { real_->order(earlier, later); }
  Mark mark(void* stream) override {
    now_ += stream == real_->handle() ? 100 : 1;
    return std::make_shared<double>(now_);
  }
  bool is_reached(const Mark&) override { return true; }
  std::optional<double> seconds(const Mark& earlier, const Mark& later) override {
    return *static_cast<double*>(later.get()) - *static_cast<double*>(earlier.get());
  }
  void finish(void* stream, std::chrono::nanoseconds limit) override { real_->finish(stream, limit); }
  void copy_to_pinned(void* to, const void* from, std::size_t bytes) override {
    real_->copy_to_pinned(to, from, bytes);
  }

 private:
  const std::unique_ptr<SideStream> real_;
  double now_ = 0;
};

class NcclWithScriptedTimes : public NcclBackend {
 public:
  using NcclBackend::NcclBackend;
  std::unique_ptr<SideStream> side_stream() override {
    return std::make_unique<ScriptedTimes>(NcclBackend::side_stream());
  }
};

void on_gpu_ranks(const std::function<void(RankThreads::Rank&)>& action) {
  for (const int size : gpu_rank_counts({1, 2, 3})) RankThreads(nccl_backend().make, size).all_succeed(action);
}

}  // namespace

TEST_CASE("gradients in GPU memory are averaged in the order of the program's stream") {
  on_gpu_ranks([](RankThreads::Rank& self) {
    GpuModel model(self.group());
    model.set(model.weight, static_cast<float>(self.rank() + 5));
    DistributedDataParallel data_parallel(self.group(), model.parameters, model.options());
    model.require_all(model.weight, 5, "the weight of rank 0");
    require(data_parallel.gradient(0).device == DeviceType::cuda, "gradients lie where the parameters do");
    const auto mean_rank = static_cast<float>(self.group().size() - 1) / 2;
    for (int i = 0; i < 6; ++i) {
      step(model, data_parallel, static_cast<float>(self.rank() + i));
      model.require_all(data_parallel.gradient(0), mean_rank + static_cast<float>(i), "gradient 0");
      model.require_all(data_parallel.gradient(1), mean_rank + static_cast<float>(i + 1), "gradient 1");
    }
    data_parallel.zero_gradients();
    model.require_all(data_parallel.gradient(0), 0, "a gradient that was cleared");
    const StepStatistics& statistics = data_parallel.statistics();
    require(statistics.steps == 6, "six steps, not " + std::to_string(statistics.steps));
    require(statistics.bytes >= (GpuModel::kWeight + GpuModel::kBias) * sizeof(float), "bytes");
    require(statistics.compute_seconds > 0 && statistics.communication_seconds > 0, "times");
    data_parallel.reset_statistics();
    require(data_parallel.statistics().steps == 0, "reset");
  });
}

TEST_CASE("gradients of one step may come from several streams") {
  on_gpu_ranks([](RankThreads::Rank& self) {
    GpuModel model(self.group());
    const ProgramStream other(self.group());
    DistributedDataParallel data_parallel(self.group(), model.parameters, model.options());
    FrameworkAdapter adapter(data_parallel);
    const Stream streams[] = {Stream::from_handle(model.stream.handle()), Stream::from_handle(other.handle())};
    const std::vector<float> own(GpuModel::kWeight, static_cast<float>(self.rank()));
    const auto set = [&](std::size_t index, Stream stream) {
      const Buffer gradient = data_parallel.gradient(index);
      require_cuda(model.cuda, model.cuda.copy_async(gradient.data, own.data(), gradient.bytes(), stream.handle()),
                   "copy");
      adapter.use_stream(stream);
      data_parallel.mark_ready(index);
    };
    for (std::size_t i = 0; i < 4; ++i) {
      set(1, streams[i % 2]);
      set(0, streams[(i + 1) % 2]);
      adapter.use_stream(streams[0]);
      data_parallel.finish();
      const auto mean = static_cast<float>(self.group().size() - 1) / 2;
      model.require_all(data_parallel.gradient(0), mean, "gradient 0");
      model.require_all(data_parallel.gradient(1), mean, "gradient 1");
    }
  });
}

TEST_CASE("a failed step on the GPU is given up, and the next one is complete") {
  on_gpu_ranks([](RankThreads::Rank& self) {
    GpuModel model(self.group());
    DistributedDataParallel data_parallel(self.group(), model.parameters, model.options());
    for (int i = 0; i < 3; ++i) {
      model.set(data_parallel.gradient(1), 9);
      data_parallel.mark_ready(1);
      data_parallel.abandon_step();
      step(model, data_parallel, static_cast<float>(self.rank()));
      model.require_all(data_parallel.gradient(0), static_cast<float>(self.group().size() - 1) / 2, "the mean");
    }
    require(data_parallel.statistics().steps == 3, "steps");
  });
}

TEST_CASE("a step whose bucket cannot begin fails and gives no gradient as the mean") {
  on_gpu_ranks([](RankThreads::Rank& self) {
    GpuModel model(self.group());
    DistributedDataParallel data_parallel(self.group(), model.parameters, model.options());
    const auto begin = gpu_function<int(void*, int)>("cuStreamBeginCapture_v2");
    const auto end = gpu_function<int(void*, void**)>("cuStreamEndCapture");
    void* graph = nullptr;
    require(begin(model.stream.handle(), 0) == kCudaSuccess, "no capture");
    const auto fails = [](const auto& action) {
      expect_error(ErrorKind::invalid_argument, {"captures a CUDA graph"}, action);
    };
    fails([&] { data_parallel.mark_ready(1); });
    require(end(model.stream.handle(), &graph) == kCudaSuccess, "the capture was disturbed");
    fails([&] { data_parallel.mark_ready(0); });
    fails([&] { data_parallel.finish(); });
  });
}

TEST_CASE("unsynchronised steps on the GPU accumulate, and unused parameters are found") {
  on_gpu_ranks([](RankThreads::Rank& self) {
    GpuModel model(self.group());
    DataParallelOptions options = model.options();
    options.unused = UnusedParameters::find;
    DistributedDataParallel data_parallel(self.group(), model.parameters, options);
    {
      const NoSync local = data_parallel.no_sync();
      data_parallel.zero_gradients();
      model.set(data_parallel.gradient(0), static_cast<float>(self.rank()));
      data_parallel.mark_ready(0);
      data_parallel.finish();
    }
    model.require_all(data_parallel.gradient(0), static_cast<float>(self.rank()), "a rank's own gradient");
    data_parallel.mark_ready(0);
    data_parallel.finish();
    model.require_all(data_parallel.gradient(0), static_cast<float>(self.group().size() - 1) / 2, "the mean");
    require(data_parallel.unused_parameters().size() == 1 && data_parallel.unused_parameters()[0] == 1, "bias");
  });
}

TEST_CASE("parameters in GPU memory are averaged by local SGD, and drifted ones are found") {
  on_gpu_ranks([](RankThreads::Rank& self) {
    GpuModel model(self.group());
    DistributedDataParallel data_parallel(self.group(), model.parameters, model.options());
    data_parallel.verify_parameters();
    LocalSgd local_sgd(data_parallel, {.period = 1, .warmup_steps = 0});
    step(model, data_parallel, 1);
    model.set(model.weight, static_cast<float>(self.rank()));
    if (self.group().size() > 1) {
      expect_error(ErrorKind::mismatch, {"differ"}, [&] { data_parallel.verify_parameters(); });
    }
    require(local_sgd.step(), "averages");
    model.require_all(model.weight, static_cast<float>(self.group().size() - 1) / 2, "the mean weight");
    data_parallel.verify_parameters();
  });
}

TEST_CASE("the order of chunks follows the times on the GPU and not those of the host") {
  const auto make = [](const BackendOptions& options, const std::shared_ptr<Store>& store) -> std::unique_ptr<Backend> {
    return std::make_unique<NcclWithScriptedTimes>(options, store, gpu_libraries());
  };
  RankThreads(make, gpu_rank_counts({2})[0]).all_succeed([](RankThreads::Rank& self) {
    PlacedMemory gpu(self.group(), DeviceType::cuda);
    std::vector<Tensor> parameters;
    for (const char* name : {"a", "b", "c", "d"}) {
      parameters.push_back({name, gpu.make(std::vector<float>(128)), {128}});
    }
    DataParallelOptions options;
    options.stream = gpu.stream();
    options.buckets.first_bytes = 1;
    options.exchange = PriorityChunks{512};
    DistributedDataParallel data_parallel(self.group(), parameters, options);
    for (int step = 0; step < 3; ++step) {
      for (const std::size_t i : {3, 2, 1, 0}) {
        gpu.fill(data_parallel.gradient(i), static_cast<double>(self.rank()));
        data_parallel.mark_ready(i);
      }
      for (std::size_t i = 0; i < 4; ++i) {
        data_parallel.wait(i);
        for (const double value : gpu.numbers(data_parallel.gradient(i))) {
          require(value == static_cast<double>(self.group().size() - 1) / 2, "mean " + std::to_string(value));
        }
      }
      data_parallel.finish();
    }
    // In the first step, gradient 3 is complete after 1 second, and gradients 2, 1 and 0 are after 102, 103 and 104.
    // The buckets travel for 304 seconds, each gradient for 76. So 3 and 2 go first, and then 0 overtakes 1. In the
    // host's time, 0 would also overtake 2.
    const std::vector<std::vector<std::size_t>> expected = {{3}, {2}, {0}, {1}};
    require(data_parallel.buckets() == expected, "another order");
  });
}

TEST_CASE("buffers, frozen parameters and the program's own gradients may be in GPU memory") {
  on_gpu_ranks([](RankThreads::Rank& self) {
    PlacedMemory gpu(self.group(), DeviceType::cuda);
    const auto own = static_cast<float>(self.rank() + 5);
    const Buffer weight = gpu.make(std::vector<float>(100, own));
    const Buffer bias = gpu.make(std::vector<float>(3, own));
    const Buffer gradients = gpu.make(std::vector<float>(103, own));
    const Buffer running = gpu.make(std::vector<std::int64_t>(2, self.rank() + 5));
    const Buffer frozen = gpu.make(std::vector<std::uint8_t>(7, static_cast<std::uint8_t>(self.rank() + 5)));
    std::vector<float> on_host(2, own);
    DataParallelOptions options;
    options.stream = gpu.stream();
    options.buckets.first_bytes = 1;
    options.gradients = gradients;
    options.model_buffers = {{"running", running, {2}}, {"on host", on_host, {2}}};
    options.frozen = {{"frozen", frozen, {7}}};
    DistributedDataParallel data_parallel(self.group(), {{"weight", weight, {100}}, {"bias", bias, {3}}}, options);
    data_parallel.verify_parameters();
    for (const Buffer& buffer : {weight, bias, running, frozen}) require(gpu.first(buffer) == 5, "rank 0's values");
    require(on_host[0] == 5, "rank 0's values in host memory");
    require(gpu.first(gradients) == own, "the program's gradients were changed");

    gpu.fill(running, self.rank());
    const int last = self.group().size() - 1;
    data_parallel.broadcast_buffers(last);
    require(gpu.first(running) == last, "the last rank's buffer");

    for (const std::size_t i : {1, 0}) {
      gpu.fill(data_parallel.gradient(i), self.rank());
      data_parallel.mark_ready(i);
    }
    data_parallel.finish();
    for (const double value : gpu.numbers(gradients)) require(std::abs(value - last / 2.0) < 1e-6, "the mean");
  });
}

TEST_CASE("parameters in GPU memory come from rank 0 with one broadcast per type") {
  const int size = gpu_rank_counts({2})[0];
  const Libraries libraries = gpu_libraries();
  std::atomic<int> broadcasts = 0;
  replace(libraries->nccl.broadcast, [&, real = libraries->nccl.broadcast](auto... arguments) {
    ++broadcasts;
    return real(arguments...);
  });
  ranks_over(libraries, size).all_succeed([](RankThreads::Rank& self) {
    PlacedMemory gpu(self.group(), DeviceType::cuda);
    std::vector<Tensor> parameters;
    for (std::int64_t i = 0; i < 20; ++i) {
      const Buffer values = i % 2 == 0 ? gpu.make(std::vector<float>(50)) : gpu.make(std::vector<Float16>(50));
      gpu.fill(values, static_cast<double>(10 * self.rank() + i));
      parameters.push_back({"parameter " + std::to_string(i), values, {50}});
    }
    DataParallelOptions options;
    options.stream = gpu.stream();
    DistributedDataParallel data_parallel(self.group(), parameters, options);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      for (const double value : gpu.numbers(parameters[i].data)) {
        require(value == static_cast<double>(i), parameters[i].name + " holds " + std::to_string(value));
      }
      for (const double value : gpu.numbers(data_parallel.gradient(i))) require(value == 0, "a gradient at first");
    }
  });
  CHECK(broadcasts == 2 * size);
}

TEST_CASE("a static graph is learnt from gradients in GPU memory") {
  on_gpu_ranks([](RankThreads::Rank& self) {
    PlacedMemory gpu(self.group(), DeviceType::cuda);
    DataParallelOptions options;
    options.stream = gpu.stream();
    options.unused = UnusedParameters::static_graph;
    DistributedDataParallel data_parallel(
        self.group(),
        {{"shared", gpu.make(std::vector<float>(40)), {40}}, {"unused", gpu.make(std::vector<float>(40)), {40}}},
        options);
    for (int step = 0; step < 3; ++step) {
      data_parallel.zero_gradients();
      for (int use = 0; use < 2; ++use) {
        gpu.add(data_parallel.gradient(0), self.rank() + step);
        data_parallel.mark_ready(0);
      }
      data_parallel.finish();
      const double mean = (self.group().size() - 1) / 2.0 + step;
      require(std::abs(gpu.first(data_parallel.gradient(0)) - 2 * mean) < 1e-5, "twice the mean");
      require(data_parallel.unused_parameters().size() == 1 && data_parallel.unused_parameters()[0] == 1, "unused");
    }
  });
}

TEST_CASE("parameters partly in host memory and partly in GPU memory are rejected") {
  RankThreads(nccl_backend().make, 1).all_succeed([](RankThreads::Rank& self) {
    GpuModel model(self.group());
    std::vector<float> on_host(3);
    std::vector<Tensor> mixed = model.parameters;
    mixed.push_back({"elsewhere", on_host, {3}});
    expect_error(ErrorKind::invalid_argument, {"'weight'", "GPU memory", "'elsewhere'", "host memory"},
                 [&] { DistributedDataParallel(self.group(), mixed, model.options()); });
  });
}

TEST_CASE("a backend without GPU memory rejects parameters there") {
  RankThreads(gloo_backend().make, 1).all_succeed([](RankThreads::Rank& self) {
    float nowhere = 0;
    const std::vector<Tensor> parameters = {{"weight", {&nowhere, 1, DataType::f32, DeviceType::cuda}, {1}}};
    expect_error(ErrorKind::invalid_argument, {"'weight'", "gloo", "nccl"},
                 [&] { DistributedDataParallel(self.group(), parameters); });
  });
}

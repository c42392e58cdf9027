// The extracts of docs/how-to/data-parallel-training.md. The program fits a line to points that it draws itself.
//
//   ddplaunch --nproc-per-node=2 manual_data_parallel
#include <ddp/ddp.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <random>
#include <span>
#include <vector>

struct Point {
  float x = 0;
  float y = 0;
};

// Sample i of the data set lies near the line y = 3 x - 1.
class Dataset {
 public:
  std::int64_t size() const { return 1000; }
  Point operator[](std::int64_t i) const {
    std::mt19937 generator(static_cast<std::uint32_t>(i));
    const float x = std::uniform_real_distribution(-1.0F, 1.0F)(generator);
    return {x, 3 * x - 1 + std::normal_distribution(0.0F, 0.1F)(generator)};
  }
};

// The mean squared error of a batch, and its gradient.
class Model {
 public:
  std::array<float, 1> weight = {};
  std::array<float, 1> bias = {};

  void backward(const ddp::Batch<Point>& batch, std::span<float> of_weight, std::span<float> of_bias) const {
    const float share = 2.0F / static_cast<float>(batch.samples.size());
    for (const Point& point : batch.samples) {
      const float error = weight[0] * point.x + bias[0] - point.y;
      of_weight[0] += share * error * point.x;
      of_bias[0] += share * error;
    }
  }
};

void train(const Dataset& dataset, Model& model) {
  // [training]
  ddp::ProcessGroup world = ddp::init();
  ddp::DistributedDataParallel data_parallel(world, {{"weight", model.weight, {1}}, {"bias", model.bias, {1}}});
  ddp::Optimizer optimizer(data_parallel, ddp::AdamOptions{.learning_rate = 0.05});
  ddp::DistributedSampler sampler(dataset.size(), world);
  ddp::DataLoader loader(dataset, sampler, {.batch_size = 32, .prefetch = 4, .threads = 2});
  for (std::int64_t epoch = 0; epoch < 10; ++epoch) {
    sampler.set_epoch(epoch);
    for (const auto& batch : loader) {
      data_parallel.zero_gradients();
      model.backward(batch, data_parallel.gradient<float>(0), data_parallel.gradient<float>(1));
      data_parallel.mark_ready(1);
      data_parallel.mark_ready(0);
      data_parallel.finish();
      optimizer.step();
    }
  }
  // [/training]
  data_parallel.verify_parameters();
  if (world.rank() == 0) std::printf("y = %.2f x %+.2f\n", model.weight[0], model.bias[0]);
}

void train_one_array(const ddp::ProcessGroup& world, std::vector<float>& parameters, std::vector<float>& gradients,
                     void (*backward)()) {
  // [one_array]
  ddp::Tensor all = {"parameters", parameters, {std::ssize(parameters)}};
  ddp::DistributedDataParallel data_parallel(world, {all}, {.gradients = gradients});
  backward();
  data_parallel.mark_ready(0);
  data_parallel.finish();
  // [/one_array]
}

void accumulate(ddp::DistributedDataParallel& data_parallel, ddp::Optimizer& optimizer,
                const std::vector<ddp::Batch<Point>>& batches, void (*backward)(const ddp::Batch<Point>&)) {
  // [accumulation]
  ddp::Accumulation window = data_parallel.accumulate(4);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    window.begin(i + 1 == batches.size());
    backward(batches[i]);
    if (window.finish()) optimizer.step();
  }
  // [/accumulation]
}

void resume(const ddp::ProcessGroup& world, ddp::DistributedDataParallel& data_parallel, ddp::Optimizer& optimizer,
            ddp::DistributedSampler& sampler, const ddp::DataLoader<Dataset>& loader,
            void (*train_step)(const ddp::Batch<Point>&)) {
  // [checkpoint]
  ddp::CheckpointState state;
  state.tensors = optimizer.state();
  for (const ddp::Tensor& parameter : data_parallel.parameters()) state.tensors.emplace_back(parameter);
  ddp::CheckpointManager checkpoints("run1", world, {.asynchronous = true});
  std::int64_t step = checkpoints.load_latest(state).value_or(0);
  if (step > 0) sampler.restore(ddp::parse_sampler_state(state.values.at("sampler")));
  for (std::int64_t epoch = sampler.state().epoch; epoch < 10; sampler.set_epoch(++epoch)) {
    for (const auto& batch : loader) {
      train_step(batch);
      sampler.consume(std::ssize(batch.indices));
      state.values["sampler"] = ddp::to_string(sampler.state());
      if (++step % 100 == 0) checkpoints.save(step, state);
    }
  }
  checkpoints.wait();
  // [/checkpoint]
}

void rehearse(const Dataset& dataset, ddp::DistributedDataParallel& data_parallel, ddp::DistributedSampler& sampler,
              std::mt19937& dropout, std::int64_t& step, void (*train_step)(const ddp::Batch<Point>&)) {
  // [rehearsal]
  ddp::Rehearsal rehearsal(data_parallel, dropout);
  ddp::DataLoader loader(dataset, sampler, {.batch_size = 32, .rehearse_last_batch = &rehearsal});
  for (const auto& batch : loader) {
    train_step(batch);
    if (rehearsal.is_running()) continue;
    sampler.consume(std::ssize(batch.indices));
    ++step;
  }
  // [/rehearsal]
}

// `Kernels` is a model whose functions start CUDA kernels.
template <typename Kernels>
void train_on_gpu(const ddp::ProcessGroup& world, Kernels& model, CUstream_st* stream) {
  // [gpu]
  ddp::DistributedDataParallel data_parallel(world, model.parameters(), {.stream = stream});
  ddp::Optimizer optimizer(data_parallel, ddp::AdamOptions{.learning_rate = 3e-4});
  model.backward(stream, data_parallel);
  data_parallel.finish();
  optimizer.step();
  // [/gpu]
}

int main() {
  try {
    const Dataset dataset;
    Model model;
    train(dataset, model);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "data_parallel: %s\n", error.what());
    return 1;
  }
}

// This training can be killed at any moment. It continues where it was, on the number of ranks that are then available.
//
//   ddplaunch --nproc-per-node=4 elastic_resume --directory run1 --steps 2000
//   (Ctrl-C, kill -9, a lost node)
//   ddplaunch --nproc-per-node=2 elastic_resume --directory run1 --steps 2000
//
// A perceptron with one hidden layer learns a function of two variables. Its optimizer's state is divided among the
// ranks. A checkpoint is written every --save-every steps, in the background with --background. With the same number of
// ranks the result is bit-identical, however often it was interrupted.
#include <ddp/ddp.h>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct Options {
  std::string directory;
  std::int64_t steps = 500;
  std::int64_t save_every = 20;
  bool background = false;
};

std::int64_t number(const std::string& name, const std::string& value) {
  std::int64_t result = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
  if (error == std::errc() && end == value.data() + value.size() && result >= 1) return result;
  throw std::runtime_error(name + " wants a number of 1 or more, not " + value);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--background") {
      options.background = true;
      continue;
    }
    if (name != "--directory" && name != "--steps" && name != "--save-every") {
      throw std::runtime_error("unknown option " + name +
                               ": elastic_resume --directory DIR [--steps N] [--save-every N] [--background]");
    }
    if (i + 1 == argc) throw std::runtime_error(name + " wants a value");
    const std::string value = argv[++i];
    if (name == "--directory") options.directory = value;
    if (name == "--steps") options.steps = number(name, value);
    if (name == "--save-every") options.save_every = number(name, value);
  }
  if (options.directory.empty()) throw std::runtime_error("want --directory, where the checkpoints are kept");
  return options;
}

constexpr std::int64_t kSamples = 1000;
constexpr std::int64_t kBatch = 16;  // samples per step of all ranks together
constexpr std::size_t kHidden = 64;

class Net {
 public:
  Net() {
    std::mt19937 generator(1);
    std::normal_distribution<double> normal(0, 0.7);
    for (double& value : weight1_) value = normal(generator);
    for (double& value : weight2_) value = normal(generator) / 4;
  }

  std::vector<ddp::Tensor> parameters() {
    return {{"weight1", weight1_, {kHidden, 2}}, {"bias1", bias1_, {kHidden}}, {"weight2", weight2_, {kHidden}}};
  }

  // Adds a sample's gradient, times `share`, and returns its squared error.
  double backward(double x0, double x1, double target, double share, ddp::DistributedDataParallel& data_parallel) {
    std::vector<double> hidden(kHidden);
    double y = 0;
    for (std::size_t k = 0; k < kHidden; ++k) {
      hidden[k] = std::tanh(weight1_[2 * k] * x0 + weight1_[2 * k + 1] * x1 + bias1_[k]);
      y += weight2_[k] * hidden[k];
    }
    const double error = y - target;
    const auto gradient1 = data_parallel.gradient<double>(0);
    const auto gradient_bias = data_parallel.gradient<double>(1);
    const auto gradient2 = data_parallel.gradient<double>(2);
    for (std::size_t k = 0; k < kHidden; ++k) {
      gradient2[k] += 2 * error * hidden[k] * share;
      const double before = 2 * error * weight2_[k] * (1 - hidden[k] * hidden[k]) * share;
      gradient1[2 * k] += before * x0;
      gradient1[2 * k + 1] += before * x1;
      gradient_bias[k] += before;
    }
    return error * error;
  }

 private:
  std::vector<double> weight1_ = std::vector<double>(2 * kHidden);
  std::vector<double> bias1_ = std::vector<double>(kHidden);
  std::vector<double> weight2_ = std::vector<double>(kHidden);
};

template <typename Generator>
std::string text_of(const Generator& generator) {
  std::ostringstream text;
  text << generator;
  return text.str();
}

void train(const Options& options) {
  ddp::ProcessGroup world = ddp::init();
  if (kBatch % world.size() != 0) throw std::runtime_error("the number of ranks must divide " + std::to_string(kBatch));
  Net net;
  ddp::DataParallelOptions parallel;
  parallel.exchange = ddp::ShardOptimizer{};
  ddp::DistributedDataParallel data_parallel(world, net.parameters(), parallel);
  ddp::Optimizer optimizer(data_parallel, ddp::AdamOptions{.learning_rate = 3e-3});
  ddp::DistributedSampler sampler(kSamples, world, {.drop_last = true});
  std::mt19937 noise(static_cast<unsigned>(world.rank()));

  // The state holds all that the training depends on: parameters and moments, the sampler, and each rank's random
  // generator.
  ddp::CheckpointState state;
  state.tensors = optimizer.state();
  for (const ddp::Tensor& parameter : data_parallel.parameters()) state.tensors.emplace_back(parameter);
  ddp::CheckpointManager checkpoints(
      options.directory, world,
      {.layout = ddp::CheckpointOptions::Layout::sharded, .asynchronous = options.background, .keep_last = 2});
  std::int64_t step = checkpoints.load_latest(state).value_or(0);
  if (step > 0) {
    sampler.restore(ddp::parse_sampler_state(state.values.at("sampler")));
    if (const auto saved = state.rank_values.find("noise"); saved != state.rank_values.end()) {
      std::istringstream(saved->second) >> noise;
    }
  }
  const bool is_first = world.rank() == 0;
  if (is_first) {
    for (const std::string& line : checkpoints.damaged()) std::printf("passed over: %s\n", line.c_str());
    std::printf(step > 0 ? "goes on from step %lld\n" : "begins at step %lld\n", static_cast<long long>(step));
    std::fflush(stdout);
  }

  const std::int64_t local_batch = kBatch / world.size();
  double loss = 0;
  while (step < options.steps) {
    if (sampler.size() < local_batch) sampler.set_epoch(sampler.state().epoch + 1);
    const std::vector<std::int64_t> indices = sampler.indices();
    for (; step < options.steps && sampler.size() >= local_batch; sampler.consume(local_batch)) {
      const auto first = static_cast<std::size_t>(std::ssize(indices) - sampler.size());
      data_parallel.zero_gradients();
      loss = 0;
      for (const std::int64_t i : std::span(indices).subspan(first, static_cast<std::size_t>(local_batch))) {
        const double x0 = std::sin(static_cast<double>(i));
        const double x1 = std::cos(static_cast<double>(3 * i));
        const double target = x0 * x1 + std::normal_distribution(0.0, 0.01)(noise);
        loss += net.backward(x0, x1, target, 1.0 / static_cast<double>(local_batch), data_parallel);
      }
      for (const std::size_t parameter : {2, 1, 0}) data_parallel.mark_ready(parameter);
      data_parallel.finish();
      optimizer.step();
      ++step;
      if (step % options.save_every != 0) continue;
      // This is the state after this step, but the sampler has not consumed the step yet.
      ddp::DistributedSampler after = sampler;
      after.consume(local_batch);
      state.values["sampler"] = ddp::to_string(after.state());
      state.rank_values["noise"] = text_of(noise);
      checkpoints.save(step, state);
      if (is_first)
        std::printf("step %lld loss %.5f\n", static_cast<long long>(step), loss / static_cast<double>(local_batch));
      if (is_first) std::fflush(stdout);
    }
  }
  checkpoints.wait();
  const auto hash = static_cast<unsigned long long>(data_parallel.verify_parameters());
  if (is_first)
    std::printf("finished at step %lld, parameters %016llx on all ranks\n", static_cast<long long>(step), hash);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    train(parse(argc, argv));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "elastic_resume: %s\n", error.what());
    return 1;
  }
}

// Trains a model with batch normalization and dropout, and prints its bits after each epoch. A batch of one sample
// fails, as batch normalization does.
//
//   ddplaunch --nproc-per-node=2 rehearsing_program plain|rehearse SAMPLES [throw|abort]
#include <ddp/ddp.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <random>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace {

constexpr std::int64_t kBatch = 8;
constexpr int kEpochs = 3;

class Model {
 public:
  std::array<float, 3> weight = {0.5F, -0.25F, 0.125F};
  std::array<float, 1> bias = {0};
  std::array<float, 2> running = {0, 1};  // mean and variance
  std::mt19937 dropout;

  explicit Model(int rank) : dropout(static_cast<std::uint32_t>(rank)) {}

  // Adds the gradients of the mean squared error.
  void backward(std::span<const float> samples, std::span<float> of_weight, std::span<float> of_bias) {
    const auto count = static_cast<float>(samples.size());
    float mean = 0;
    for (const float x : samples) mean += x / count;
    float variance = 0;
    for (const float x : samples) variance += (x - mean) * (x - mean) / count;
    running[0] += 0.1F * (mean - running[0]);
    running[1] += 0.1F * (variance * count / (count - 1) - running[1]);
    for (const float sample : samples) {
      const float x = (sample - mean) / std::sqrt(variance + 1e-5F);
      const float kept = std::uniform_real_distribution<float>()(dropout) < 0.8F ? 1.25F : 0;
      const float error = kept * (weight[0] + weight[1] * x + weight[2] * x * x) + bias[0] - std::sin(sample);
      of_bias[0] += 2 * error / count;
      of_weight[0] += 2 * error * kept / count;
      of_weight[1] += 2 * error * kept * x / count;
      of_weight[2] += 2 * error * kept * x * x / count;
    }
  }
};

void train(bool rehearse, std::int64_t samples, std::string_view failure) {
  ddp::ProcessGroup world = ddp::init();
  std::vector<float> dataset;
  for (std::int64_t i = 0; i < samples; ++i) dataset.push_back(static_cast<float>(i * 37 % 101) / 50);
  Model model(world.rank());
  ddp::DataParallelOptions options;
  options.model_buffers = {{"running", model.running, {2}}};
  options.exchange = ddp::make_top_k_hook(0.5);
  ddp::DistributedDataParallel data_parallel(world, {{"weight", model.weight, {3}}, {"bias", model.bias, {1}}},
                                             options);
  ddp::Optimizer optimizer(data_parallel, ddp::AdamOptions{.learning_rate = 0.01});
  ddp::DistributedSampler sampler(std::ssize(dataset), world);
  ddp::Rehearsal rehearsal(data_parallel, model.dropout);
  ddp::DataLoader loader(
      dataset, sampler,
      {.batch_size = kBatch, .prefetch = 3, .threads = 2, .rehearse_last_batch = rehearse ? &rehearsal : nullptr});
  std::int64_t step = 0;
  for (std::int64_t epoch = 0; epoch < kEpochs; sampler.set_epoch(++epoch)) {
    for (const auto& batch : loader) {
      if (batch.samples.size() == 1 && failure == "throw") {
        throw std::runtime_error("expected more than 1 value per channel");
      }
      if (batch.samples.size() == 1 && failure == "abort") std::abort();
      data_parallel.zero_gradients();
      model.backward(batch.samples, data_parallel.gradient<float>(0), data_parallel.gradient<float>(1));
      data_parallel.mark_ready(1);
      data_parallel.mark_ready(0);
      data_parallel.finish();
      optimizer.step();
      if (rehearsal.is_running()) continue;
      std::printf("rank %d step %lld\n", world.rank(), static_cast<long long>(++step));
      sampler.consume(std::ssize(batch.indices));
    }
    std::printf("rank %d epoch %lld %a %a %a %a %a %a %lu\n", world.rank(), static_cast<long long>(epoch),
                model.weight[0], model.weight[1], model.weight[2], model.bias[0], model.running[0], model.running[1],
                static_cast<unsigned long>(std::mt19937(model.dropout)()));
    std::fflush(stdout);
  }
  data_parallel.verify_parameters();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  try {
    train(std::string_view(argv[1]) == "rehearse", std::atoll(argv[2]), argc > 3 ? argv[3] : "");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rehearsing_program: %s\n", error.what());
    return 1;
  }
}

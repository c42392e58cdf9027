// This program trains the character model of train_charlm on GPUs, one per rank. NCCL averages the gradients while
// backward is still running.
//
//   ddplaunch --nproc_per_node=2 train_cuda --text FILE
//
// Kernels, cuBLAS and the averaging are put on one stream, and no step waits on the host. Model, order of samples and
// double precision are those of train_charlm, so the loss is the same too. The kernels are in charlm/gpu_model.cuh.
#include <ddp/ddp.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "charlm/gpu_model.cuh"
#include "charlm/text.h"

namespace {

using charlm::Index;

struct Options {
  std::string text = "/usr/share/common-licenses/GPL-3";
  Index steps = 500;
  Index batch = 128;  // predictions per step, over all ranks
  Index seed = 0;
  double learning_rate = 2e-3;
  bool is_local = false;  // does not average gradients, to measure a step without communication
};

constexpr const char* kHelp =
    "train_cuda [--text FILE] [--steps N] [--batch N] [--seed N] [--learning-rate X] [--local]\n"
    "Trains a character language model on the GPUs of all ranks; --local: each rank for itself, to compare the time.\n";

Options parse(int argc, char** argv) {
  Options options;
  std::map<std::string, std::string*> texts = {{"--text", &options.text}};
  std::map<std::string, Index*> numbers = {
      {"--steps", &options.steps}, {"--batch", &options.batch}, {"--seed", &options.seed}};
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--local") {
      options.is_local = true;
      continue;
    }
    const bool known = texts.contains(name) || numbers.contains(name) || name == "--learning-rate";
    if (!known || i + 1 == argc) throw std::runtime_error("wrong argument " + name + "\n" + kHelp);
    const std::string value = argv[++i];
    if (texts.contains(name)) *texts[name] = value;
    if (numbers.contains(name)) *numbers[name] = std::stoll(value);
    if (name == "--learning-rate") options.learning_rate = std::stod(value);
  }
  if (options.steps < 1 || options.batch < 1 || options.seed < 0 || !(options.learning_rate > 0)) {
    throw std::runtime_error("--steps and --batch are 1 or more, --seed 0 or more, --learning-rate more than 0");
  }
  return options;
}

// Returns the mean over all ranks, as in train_charlm.
double validation_perplexity(charlm::GpuModel& model, const charlm::Corpus& corpus, Index rows,
                             ddp::ProcessGroup& world) {
  const Index begin = std::ssize(corpus.train) + charlm::kContext;
  const Index end = std::ssize(corpus.train) + std::ssize(corpus.valid);
  std::vector<double> nats_and_count = {0, 0};
  for (Index first = begin + world.rank() * rows; first < end; first += world.size() * rows) {
    std::vector<Index> positions(static_cast<std::size_t>(std::min(rows, end - first)));
    std::iota(positions.begin(), positions.end(), first);
    const ddp::Memory on_gpu = model.gpu.copy_of(positions);
    model.forward(on_gpu.as<Index>().data(), std::ssize(positions));
    nats_and_count[0] += model.mean_loss(std::ssize(positions)) * static_cast<double>(positions.size());
    nats_and_count[1] += static_cast<double>(positions.size());
  }
  world.all_reduce(nats_and_count).wait();
  return std::exp(nats_and_count[0] / nats_and_count[1]);
}

void train(const Options& options) {
  const charlm::Corpus corpus = charlm::read_corpus(options.text);
  ddp::ProcessGroup world = ddp::init();
  if (world.backend() != "nccl") throw std::runtime_error("needs a GPU: " + world.backend_reason());
  const Index samples = std::ssize(corpus.train) - charlm::kContext;
  if (options.batch % world.size() != 0 || options.batch > samples) {
    throw std::runtime_error("--batch " + std::to_string(options.batch) + " must be a multiple of the " +
                             std::to_string(world.size()) + " ranks and at most " + std::to_string(samples));
  }
  const Index local_batch = options.batch / world.size();

  charlm::Gpu gpu(world);
  std::vector<std::uint8_t> text = corpus.train;
  text.insert(text.end(), corpus.valid.begin(), corpus.valid.end());
  charlm::GpuModel model(gpu, text, std::ssize(corpus.alphabet), local_batch, static_cast<std::uint64_t>(options.seed));
  ddp::DataParallelOptions parallel_options;
  parallel_options.stream = gpu.stream;
  ddp::DistributedDataParallel data_parallel(world, model.parameters, parallel_options);
  charlm::GpuAdam adam(model, options.learning_rate);

  ddp::DistributedSampler sampler(samples, world,
                                  {.seed = static_cast<std::uint64_t>(options.seed), .drop_last = true});
  const Index steps_per_epoch = samples / options.batch;
  // Orders of the epochs, on the GPU. They are kept, because kernels of earlier steps may still read them when the host
  // is at the next epoch.
  std::vector<ddp::Memory> orders;
  double first_loss = 0;
  for (Index step = 0; step < options.steps; ++step) {
    if (step % steps_per_epoch == 0) {
      sampler.set_epoch(step / steps_per_epoch);
      std::vector<Index> positions = sampler.indices();
      for (Index& position : positions) position += charlm::kContext;
      orders.push_back(gpu.copy_of(positions));
    }
    const Index* positions = orders.back().as<Index>().data() + step % steps_per_epoch * local_batch;

    data_parallel.zero_gradients();
    model.forward(positions, local_batch);
    if (step == 0) first_loss = model.mean_loss(local_batch);
    const auto backward = [&] {
      model.backward(positions, local_batch, data_parallel);
      data_parallel.finish();  // puts the wait for the mean on the stream
    };
    if (options.is_local) {
      const ddp::NoSync local = data_parallel.no_sync();
      backward();
    } else {
      backward();
    }
    adam.step(data_parallel, step + 1);
  }
  const double loss = model.mean_loss(local_batch);
  if (!options.is_local) data_parallel.verify_parameters();
  const double perplexity = validation_perplexity(model, corpus, local_batch, world);
  if (world.rank() != 0) return;
  std::printf("trained      %lld steps of %lld characters on %d ranks; loss of rank 0: %.10f -> %.10f\n",
              static_cast<long long>(options.steps), static_cast<long long>(options.batch), world.size(), first_loss,
              loss);
  std::printf("validation   perplexity %.6f\n", perplexity);
  const ddp::StepStatistics& statistics = data_parallel.statistics();
  if (statistics.steps == 0) return;
  std::printf("a step       %.3f ms computing, %.3f ms communicating, %.3f ms of it exposed (overlap %.0f %%)\n",
              statistics.compute_seconds * 1e3, statistics.communication_seconds * 1e3,
              statistics.exposed_seconds * 1e3, statistics.overlap_ratio() * 100);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 2 && (std::string(argv[1]) == "--help" || std::string(argv[1]) == "-h")) {
      std::fputs(kHelp, stdout);
      return 0;
    }
    train(parse(argc, argv));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_cuda: %s\n", error.what());
    return 1;
  }
}

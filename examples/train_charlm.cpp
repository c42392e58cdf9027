// This program trains a character language model on all ranks together. It is the smallest complete use of the runtime.
//
//   ddplaunch --nproc-per-node=2 train_charlm --text FILE
//
// Each rank takes its share of every global batch from the sampler. Gradients are averaged while backward is still
// running. Rank 0 saves a checkpoint, and --resume continues from it. The result does not depend on the number of
// ranks.
#include <ddp/ddp.h>

#include <cmath>
#include <cstdio>
#include <exception>
#include <numeric>
#include <optional>

#include "charlm/adam.h"
#include "charlm/model.h"
#include "charlm/options.h"
#include "charlm/progress_line.h"
#include "charlm/text.h"

namespace {

using charlm::Model;
using charlm::Options;

// Describes the settings that determine the course of a training. A checkpoint belongs to exactly one such description.
std::map<std::string, std::string> describe_run(const Options& options, const charlm::Corpus& corpus) {
  return {{"alphabet_size", std::to_string(corpus.alphabet.size())},
          {"train_size", std::to_string(corpus.train.size())},
          {"batch", std::to_string(options.batch)},
          {"seed", std::to_string(options.seed)},
          {"learning_rate", std::to_string(options.learning_rate)}};
}

std::shared_ptr<ddp::CommunicationHook> make_hook(const std::string& name) {
  if (name == "mean") return ddp::make_mean_hook();
  if (name == "f16") return ddp::make_half_hook(ddp::DataType::f16);
  if (name == "bf16") return ddp::make_half_hook(ddp::DataType::bf16);
  if (name == "power-sgd") return ddp::make_power_sgd_hook({.rank = 4, .start_step = 20});
  if (name == "top-k") return ddp::make_top_k_hook(0.05);
  if (name == "one-bit") return ddp::make_one_bit_hook();
  throw std::runtime_error("unknown --hook " + name + ". See train_charlm --help");
}

// Returns the mean over all ranks. Each position of the validation text is predicted once.
double validation_perplexity(Model& model, const charlm::Corpus& corpus, ddp::ProcessGroup& world) {
  constexpr std::int64_t kChunk = 256;
  const auto context = static_cast<std::int64_t>(model.context());
  std::vector<double> nats_and_count = {0, 0};
  for (std::int64_t first = context + world.rank() * kChunk; first < std::ssize(corpus.valid);
       first += world.size() * kChunk) {
    std::vector<std::int64_t> positions(static_cast<std::size_t>(std::min(kChunk, std::ssize(corpus.valid) - first)));
    std::iota(positions.begin(), positions.end(), first);
    nats_and_count[0] += model.forward(corpus.valid, positions) * static_cast<double>(positions.size());
    nats_and_count[1] += static_cast<double>(positions.size());
  }
  world.all_reduce(nats_and_count).wait();
  return std::exp(nats_and_count[0] / nats_and_count[1]);
}

// Returns the step of the checkpoint, or throws a reason why it does not fit.
std::int64_t restore(ddp::CheckpointFile& checkpoint, std::span<const ddp::Tensor> state,
                     const std::map<std::string, std::string>& run) {
  const auto metadata = checkpoint.load(state);
  for (const auto& [name, value] : run) {
    const auto saved = metadata.find(name);
    if (saved != metadata.end() && saved->second == value) continue;
    throw ddp::Error(ddp::ErrorKind::mismatch,
                     "checkpoint " + checkpoint.path() + " belongs to another training: " + name + " was " +
                         (saved == metadata.end() ? "not saved" : saved->second) + " and is now " + value);
  }
  return std::stoll(metadata.at("step"));
}

void train(const Options& options) {
  const charlm::Corpus corpus = charlm::read_corpus(options.text);
  ddp::ProcessGroup world = ddp::init();
  const bool is_first = world.rank() == 0;

  Model model({.symbols = corpus.alphabet.size()}, static_cast<std::uint64_t>(options.seed));
  ddp::DataParallelOptions parallel_options;
  parallel_options.exchange = make_hook(options.hook);
  ddp::DistributedDataParallel data_parallel(world, model.parameters(), parallel_options);
  std::optional<ddp::LocalSgd> local;
  if (options.local_steps > 1) local.emplace(data_parallel, ddp::LocalSgdOptions{.period = options.local_steps});
  std::vector<std::span<double>> gradients;
  for (std::size_t i = 0; i < charlm::kParameterCount; ++i) gradients.push_back(data_parallel.gradient<double>(i));
  charlm::Adam adam(data_parallel.parameters(), {.learning_rate = options.learning_rate});

  // A sample is a position of the text with a whole context before it. The sampler assigns positions r, r+W, r+2W, … of
  // the epoch's order to rank r. Therefore the same step of all ranks together is the same global batch for every W.
  const auto context = static_cast<std::int64_t>(model.context());
  const std::int64_t samples = std::ssize(corpus.train) - context;
  if (options.batch % world.size() != 0 || options.batch > samples) {
    throw std::runtime_error("--batch " + std::to_string(options.batch) + " must be a multiple of the " +
                             std::to_string(world.size()) + " ranks and at most " + std::to_string(samples));
  }
  ddp::DistributedSampler sampler(samples, world,
                                  {.seed = static_cast<std::uint64_t>(options.seed), .drop_last = true});
  const std::int64_t local_batch = options.batch / world.size();
  const std::int64_t steps_per_epoch = samples / options.batch;
  const std::int64_t total_steps = options.steps > 0 ? options.steps : options.epochs * steps_per_epoch;
  const std::int64_t save_every = options.save_every > 0 ? options.save_every : steps_per_epoch;

  std::vector<ddp::Tensor> state = model.parameters();
  for (ddp::Tensor& tensor : adam.state()) state.push_back(std::move(tensor));
  ddp::CheckpointFile checkpoint(options.checkpoint, world);
  const auto run = describe_run(options, corpus);
  std::int64_t step = options.resume ? restore(checkpoint, state, run) : 0;
  if (!options.checkpoint.empty()) static_cast<void>(checkpoint.exists());  // detects a missing directory now
  if (is_first && step >= total_steps)
    std::printf("nothing to do: already at step %lld\n", static_cast<long long>(step));
  if (is_first && step > 0)
    std::printf("resumed from %s at step %lld\n", options.checkpoint.c_str(), static_cast<long long>(step));
  const auto save = [&] {
    if (options.checkpoint.empty()) return;
    auto metadata = run;
    metadata["step"] = std::to_string(step);
    checkpoint.save(state, metadata);
  };

  const std::int64_t first_step = step;
  charlm::ProgressLine progress(is_first, step, total_steps, options.batch);
  std::vector<std::int64_t> order;
  while (step < total_steps) {
    const std::int64_t epoch = step / steps_per_epoch;
    const std::int64_t step_in_epoch = step % steps_per_epoch;
    if (order.empty() || step_in_epoch == 0) {
      sampler.set_epoch(epoch);
      order = sampler.indices();
      for (std::int64_t& position : order) position += context;
    }
    const auto positions = std::span<const std::int64_t>(order).subspan(
        static_cast<std::size_t>(step_in_epoch * local_batch), static_cast<std::size_t>(local_batch));

    data_parallel.zero_gradients();
    const double loss = model.forward(corpus.train, positions);
    model.backward(gradients, [&](charlm::ParameterIndex index) { data_parallel.mark_ready(index); });
    data_parallel.finish();
    adam.step(gradients, ++step);
    if (local) local->step();
    progress.update(step, loss);
    if (step % save_every == 0 && step < total_steps) save();
  }
  if (local) local->average();
  const double seconds = progress.seconds();
  if (step > first_step) save();

  const std::uint64_t hash = data_parallel.verify_parameters();
  const double perplexity = validation_perplexity(model, corpus, world);
  if (!is_first) return;
  const charlm::BigramScore bigram = charlm::best_bigram(corpus);
  const double tokens = static_cast<double>((step - first_step) * options.batch);
  std::printf("trained      %lld steps of %lld characters on %d ranks in %.1f s (%s tok/s)\n",
              static_cast<long long>(step - first_step), static_cast<long long>(options.batch), world.size(), seconds,
              charlm::ProgressLine::thousands(tokens / seconds).c_str());
  std::printf("validation   perplexity %.2f; best bigram table %.2f (lower is better)\n", perplexity,
              bigram.perplexity);
  const ddp::StepStatistics& statistics = data_parallel.statistics();
  if (statistics.steps > 0) {
    std::printf("a step       %.2f ms computing, %.2f ms waiting for gradients, %.0f bytes sent (hook %s)\n",
                statistics.compute_seconds * 1e3, statistics.exposed_seconds * 1e3, statistics.bytes,
                options.hook.c_str());
  }
  std::printf("parameters   hash %016llx, the same on all ranks\n", static_cast<unsigned long long>(hash));
  if (!options.checkpoint.empty()) {
    std::printf("checkpoint   %s at step %lld; continue with --resume --steps N\n", options.checkpoint.c_str(),
                static_cast<long long>(step));
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = charlm::parse_options(argc, argv);
    if (options.help) {
      std::fputs(charlm::help_text().c_str(), stdout);
      return 0;
    }
    train(options);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_charlm: %s\n", error.what());
    return 1;
  }
}

// This example has 8607 samples, 4 ranks and batches of 4: numbers that do not divide. It shows three ways to train on
// them, none of which hangs.
//
//   ddplaunch --nproc-per-node=4 uneven_data pad     every rank gets as many samples; a few are seen twice
//   ddplaunch --nproc-per-node=4 uneven_data drop    every rank gets as many samples; a few are not seen
//   ddplaunch --nproc-per-node=4 uneven_data join    every rank has its own file, of a different length
//
// The model is a line through noisy points. Each run prints how many samples the ranks have seen, and the line.
#include <ddp/ddp.h>

#include <cmath>
#include <cstdio>
#include <exception>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace {

constexpr std::int64_t kSamples = 8607;
constexpr std::size_t kBatch = 4;
constexpr int kEpochs = 2;

struct Point {
  double x = 0;
  double y = 0;
};

// Returns sample i of the data set: y = 3 x - 1 and some noise.
Point sample(std::int64_t i) {
  std::mt19937 generator(static_cast<std::uint32_t>(i));
  const double x = std::uniform_real_distribution(-1.0, 1.0)(generator);
  return {x, 3 * x - 1 + std::normal_distribution(0.0, 0.1)(generator)};
}

// Returns the indices of one rank's file. The first rank's file is the longest.
std::vector<std::int64_t> file_of(int rank, int ranks) {
  const double whole = ranks * (ranks + 1) / 2.0;
  const auto end_of = [&](int last) {
    double share = 0;
    for (int r = 0; r <= last; ++r) share += ranks - r;
    return last + 1 == ranks ? kSamples : static_cast<std::int64_t>(share / whole * kSamples);
  };
  const std::int64_t first = rank == 0 ? 0 : end_of(rank - 1);
  std::vector<std::int64_t> indices(static_cast<std::size_t>(end_of(rank) - first));
  std::iota(indices.begin(), indices.end(), first);
  return indices;
}

class Training {
 public:
  explicit Training(ddp::ProcessGroup& world)
      : data_parallel_(world, {{"slope and offset", line_, {2}}}),
        optimizer_(data_parallel_, ddp::SgdOptions{.learning_rate = 0.05, .momentum = 0.5}) {}

  // Makes one step on a batch of this rank's indices.
  void step(std::span<const std::int64_t> batch) {
    data_parallel_.zero_gradients();
    const std::span<double> gradient = data_parallel_.gradient<double>(0);
    for (const std::int64_t i : batch) {
      const auto [x, y] = sample(i);
      const double error = line_[0] * x + line_[1] - y;
      gradient[0] += 2 * error * x / static_cast<double>(batch.size());
      gradient[1] += 2 * error / static_cast<double>(batch.size());
    }
    data_parallel_.mark_ready(0);
    data_parallel_.finish();
    optimizer_.step();
    seen_ += std::ssize(batch);
  }

  ddp::DistributedDataParallel& data_parallel() { return data_parallel_; }
  ddp::Optimizer& optimizer() { return optimizer_; }
  const std::vector<double>& line() const { return line_; }
  std::int64_t seen() const { return seen_; }

 private:
  std::vector<double> line_ = {0, 0};
  ddp::DistributedDataParallel data_parallel_;
  ddp::Optimizer optimizer_;
  std::int64_t seen_ = 0;
};

template <typename Step>
void for_each_batch(const std::vector<std::int64_t>& indices, const Step& step) {
  for (std::size_t first = 0; first < indices.size(); first += kBatch) {
    step(std::span(indices).subspan(first, std::min(kBatch, indices.size() - first)));
  }
}

// The sampler makes the ranks' shares equal, so nothing else is needed.
void train_evenly(ddp::ProcessGroup& world, Training& training, bool drop_last) {
  ddp::DistributedSampler sampler(kSamples, world, {.drop_last = drop_last});
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    sampler.set_epoch(epoch);
    for_each_batch(sampler.indices(), [&](auto batch) { training.step(batch); });
  }
}

// A rank whose file has ended takes part in the others' steps until the longest has ended.
void train_joined(ddp::ProcessGroup& world, Training& training) {
  const std::vector<std::int64_t> file = file_of(world.rank(), world.size());
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    ddp::Join join(training.data_parallel(), [&] { training.optimizer().step(); });
    for_each_batch(file, [&](auto batch) {
      join.begin_step();
      training.step(batch);
    });
    join.finish();
  }
}

void run(const std::string& mode) {
  ddp::ProcessGroup world = ddp::init();
  Training training(world);
  if (mode == "join") {
    train_joined(world, training);
  } else if (mode == "pad" || mode == "drop") {
    train_evenly(world, training, mode == "drop");
  } else {
    throw std::runtime_error("the mode is pad, drop or join, not '" + mode + "'");
  }

  training.data_parallel().verify_parameters();
  const std::int64_t mine = training.seen();
  std::vector<std::int64_t> seen(static_cast<std::size_t>(world.size()));
  world.all_gather(seen, std::span(&mine, 1)).wait();
  const std::vector<double>& line = training.line();
  if (world.rank() == 0) {
    std::printf("%s: y = %.2f x %+.2f; samples seen in %d epochs of %lld:", mode.c_str(), line[0], line[1], kEpochs,
                static_cast<long long>(kSamples));
    for (const std::int64_t count : seen) std::printf(" %lld", static_cast<long long>(count));
    std::puts(", the same line on all ranks");
  }
  if (std::abs(line[0] - 3) > 0.1 || std::abs(line[1] + 1) > 0.1) throw std::runtime_error("the line was not learnt");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 2) throw std::runtime_error("want one argument: pad, drop or join");
    run(argv[1]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "uneven_data: %s\n", error.what());
    return 1;
  }
}

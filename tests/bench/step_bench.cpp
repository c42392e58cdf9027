// One rank's training steps of a multilayer perceptron of 25 million parameters, in libtorch with our
// DistributedDataParallel. Rank 0 prints {"median", "best": milliseconds a step, "peak": MiB, "own": MiB of the
// proportional set size at the end that came after the group was made, and our statistics}.
//
//   step_bench BATCH STEPS MODE      MODE: local (no_sync in every step), barrier (local, and a barrier after backward:
//   what
//                                    it takes that the ranks wait for each other), or synchronised
#include <ddp/ddp.h>
#include <ddp/torch.h>

#include <sys/resource.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kWarmUp = 3;

torch::nn::Sequential make_net() {
  torch::nn::Sequential net;
  const std::vector<std::int64_t> widths = {1024, 3072, 3072, 3072, 1024};
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    net->push_back(torch::nn::Linear(widths[i], widths[i + 1]));
    if (i + 2 < widths.size()) net->push_back(torch::nn::ReLU());
  }
  return net;
}

// What ranks share counts in equal parts.
double proportional_mib() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string word; file >> word;) {
    double kib = 0;
    if (word == "Pss:" && file >> kib) return kib / 1024;
  }
  return 0;
}

void run(std::int64_t batch, int steps, const std::string& mode) {
  const bool is_local = mode != "synchronised";
  torch::set_num_threads(1);
  ddp::ProcessGroup world = ddp::init();
  const double before = proportional_mib();
  ddp::torch::DistributedDataParallel net(world, make_net());
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  const torch::Tensor x = torch::randn({batch, 1024});
  const torch::Tensor y = torch::randn({batch, 1024});
  std::vector<double> times;
  for (int step = 0; step < kWarmUp + steps; ++step) {
    if (step == kWarmUp) net.data_parallel().reset_statistics();
    world.barrier().wait();
    const auto began = Clock::now();
    optimizer.zero_grad();
    const auto backward = [&] { torch::mse_loss(net.forward(x), y).backward(); };
    if (is_local) {
      const ddp::NoSync local = net.no_sync();
      backward();
      if (mode == "barrier") world.barrier().wait();
    } else {
      backward();
    }
    optimizer.step();
    if (step >= kWarmUp) times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - began).count());
  }
  const double own = proportional_mib() - before;
  // A step is as long as it takes the slowest rank.
  world.all_reduce(times, ddp::ReduceOp::max).wait();
  std::sort(times.begin(), times.end());
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  if (world.rank() != 0) return;
  const ddp::StepStatistics& statistics = net.data_parallel().statistics();
  const double peak = static_cast<double>(usage.ru_maxrss) / 1024;
  std::printf(
      "{\"median\": %.2f, \"best\": %.2f, \"peak\": %.1f, \"own\": %.1f, \"exposed\": %.2f, \"communication\": %.2f}\n",
      times[times.size() / 2], times.front(), peak, own, statistics.exposed_seconds * 1e3,
      statistics.communication_seconds * 1e3);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 4) throw std::runtime_error("want BATCH STEPS MODE");
    run(std::stoll(argv[1]), std::stoi(argv[2]), argv[3]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "step_bench: %s\n", error.what());
    return 1;
  }
}

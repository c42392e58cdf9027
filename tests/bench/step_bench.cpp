// Trains a multilayer perceptron of 25 million parameters as one rank, in libtorch with ddp::DistributedDataParallel.
// It trains on the rank's GPU if the backend is nccl. A local step (no_sync) and a step of MODE take turns, so that a
// change of the computer's speed affects both alike. Rank 0 prints {"local", "steps": milliseconds of each, "peak":
// MiB, "own": MiB, and the runtime's statistics}. "own" is the growth of the proportional set size from the creation of
// the group to the end.
//
//   step_bench BATCH PAIRS MODE      MODE is synchronised, or barrier (a local step with a barrier after backward:
//                                    it shows how long the ranks wait for each other)
#include <ddp/ddp.h>
#include <ddp/libtorch.h>

#include <sys/resource.h>
#include <torch/torch.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>
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

// Memory that ranks share counts in equal parts.
double proportional_mib() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string word; file >> word;) {
    double kib = 0;
    if (word == "Pss:" && file >> kib) return kib / 1024;
  }
  return 0;
}

// A step takes as long as it takes the slowest rank. Returns a list such as "[1.00, 2.00]".
std::string slowest(ddp::ProcessGroup& world, std::vector<double> times) {
  world.all_reduce(times, ddp::ReduceOp::max).wait();
  std::ostringstream text;
  text.precision(2);
  text << std::fixed;
  for (const double time : times) text << (text.tellp() > 0 ? ", " : "[") << time;
  return text.str() + "]";
}

void run(std::int64_t batch, int pairs, const std::string& mode) {
  torch::set_num_threads(1);
  ddp::ProcessGroup world = ddp::init();
  const double before = proportional_mib();
  const bool on_gpu = world.device().type == ddp::DeviceType::cuda;
  const torch::Device device = on_gpu ? torch::Device(torch::kCUDA, static_cast<c10::DeviceIndex>(world.device().index))
                                      : torch::Device(torch::kCPU);
  torch::nn::Sequential model = make_net();
  model->to(device);
  ddp::libtorch::DistributedDataParallel net(world, model);
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  const torch::Tensor x = torch::randn({batch, 1024}, device);
  const torch::Tensor y = torch::randn({batch, 1024}, device);
  const auto backward = [&] { torch::mse_loss(net.forward(x), y).backward(); };
  const auto time_of = [&](const auto& body) {
    world.barrier().wait();
    const auto began = Clock::now();
    optimizer.zero_grad();
    body();
    optimizer.step();
    if (on_gpu) torch::cuda::synchronize();
    return std::chrono::duration<double, std::milli>(Clock::now() - began).count();
  };
  std::vector<double> local;
  std::vector<double> steps;
  for (int pair = 0; pair < kWarmUp + pairs; ++pair) {
    if (pair == kWarmUp) {
      net.data_parallel().reset_statistics();
      local.clear();
      steps.clear();
    }
    const auto locally = [&] {
      const ddp::NoSync no_sync = net.no_sync();
      backward();
    };
    local.push_back(time_of(locally));
    if (mode == "synchronised") {
      steps.push_back(time_of(backward));
    } else {
      steps.push_back(time_of([&] {
        locally();
        world.barrier().wait();
      }));
    }
  }
  const double own = proportional_mib() - before;
  const std::string local_times = slowest(world, local);
  const std::string step_times = slowest(world, steps);
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  if (world.rank() != 0) return;
  const ddp::StepStatistics& statistics = net.data_parallel().statistics();
  const double peak = static_cast<double>(usage.ru_maxrss) / 1024;
  std::printf(
      "{\"local\": %s, \"steps\": %s, \"peak\": %.1f, \"own\": %.1f, \"exposed\": %.2f, \"communication\": %.2f}\n",
      local_times.c_str(), step_times.c_str(), peak, own, statistics.exposed_seconds * 1e3,
      statistics.communication_seconds * 1e3);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 4 || (argv[3] != std::string("synchronised") && argv[3] != std::string("barrier"))) {
      throw std::runtime_error("want BATCH PAIRS MODE, MODE: synchronised or barrier");
    }
    run(std::stoll(argv[1]), std::stoi(argv[2]), argv[3]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "step_bench: %s\n", error.what());
    return 1;
  }
}

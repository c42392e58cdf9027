// Whether communication hides behind backward: layers that sleep instead of computing, and a backend whose all-reduce
// sleeps instead of sending, so that nothing but the order of things decides.
//
//   overlap_bench [LAYERS=8] [LAYER_MS=20] [BUCKET_MS=10] [STEPS=20]
//
// Prints the median step, the ideal one (all layers, then the last bucket), and that without any overlap.
#include <ddp/distributed_data_parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "runtime/group/group_core.h"

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

class SleepingBackend : public ddp::Backend {
 public:
  explicit SleepingBackend(milliseconds pause) : pause_(pause) {}
  std::string_view name() const override { return "sleeping"; }
  void run(const ddp::Call& call) override {
    if (call.operation == ddp::Operation::all_reduce) std::this_thread::sleep_for(pause_);
    if (call.operation == ddp::Operation::all_gather) {  // a group of one
      std::copy_n(static_cast<const std::byte*>(call.input.data), call.input.bytes(),
                  static_cast<std::byte*>(call.output.data));
    }
  }

 private:
  const milliseconds pause_;
};

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int i, int otherwise) { return argc > i ? std::stoi(argv[i]) : otherwise; };
  const int layers = number(1, 8);
  const milliseconds layer(number(2, 20));
  const milliseconds bucket(number(3, 10));
  const int steps = number(4, 20);

  ddp::GroupDescription description;
  description.options.size = 1;
  ddp::ProcessGroup group(
      std::make_unique<ddp::GroupCore>(std::move(description), std::make_unique<SleepingBackend>(bucket)));
  std::vector<std::vector<float>> weights(static_cast<std::size_t>(layers), std::vector<float>(1024));
  std::vector<ddp::Tensor> parameters;
  for (std::vector<float>& weight : weights) {
    parameters.push_back({"layer " + std::to_string(parameters.size()), weight, {1024}});
  }
  ddp::DistributedDataParallel data_parallel(group, parameters, {.first_bucket_bytes = 1, .bucket_bytes = 1});
  std::vector<double> times;
  for (int step = 0; step < steps + 2; ++step) {
    const auto began = Clock::now();
    for (std::size_t i = weights.size(); i-- > 0;) {
      std::this_thread::sleep_for(layer);
      data_parallel.mark_ready(i);
    }
    data_parallel.finish();
    if (step == 1) data_parallel.reset_statistics();
    if (step > 1) times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - began).count());
  }
  std::sort(times.begin(), times.end());
  const ddp::StepStatistics& statistics = data_parallel.statistics();
  std::printf("{\"median\": %.1f, \"ideal\": %lld, \"without overlap\": %lld, \"overlap ratio\": %.2f}\n",
              times[times.size() / 2], static_cast<long long>((layers * layer + bucket).count()),
              static_cast<long long>((layers * (layer + bucket)).count()), statistics.overlap_ratio());
}

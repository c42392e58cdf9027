// Measures how well communication overlaps with computing. The layers sleep instead of computing, and the backend's
// all-reduce sleeps instead of sending, so that only the order of operations matters.
//
//   overlap_bench [LAYERS=8] [LAYER_MS=20] [BUCKET_MS=10] [STEPS=20]
//
// Prints the median of backward and finish(), the ideal (all layers, then the last bucket), and the time without any
// overlap. Then the all-reduce becomes four times as slow, and the forward pass begins as gradients arrive. The median
// step is printed for buckets sent by readiness and by priority.
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
constexpr std::size_t kLayerFloats = 1024;

class SleepingBackend : public ddp::internal::Backend {
 public:
  explicit SleepingBackend(milliseconds per_layer) : per_layer_(per_layer) {}
  std::string_view name() const override { return "sleeping"; }
  void run(const ddp::internal::Call& call) override {
    if (call.operation == ddp::internal::Operation::all_reduce) {
      std::this_thread::sleep_for(per_layer_ * static_cast<double>(call.output.count) / kLayerFloats);
    }
    if (call.operation == ddp::internal::Operation::all_gather) {  // the group has one rank
      std::copy_n(static_cast<const std::byte*>(call.input.data), call.input.bytes(),
                  static_cast<std::byte*>(call.output.data));
    }
  }

 private:
  const std::chrono::duration<double, std::milli> per_layer_;
};

struct Settings {
  int layers = 8;
  milliseconds layer{20};
  milliseconds bucket{10};
  int steps = 20;
  bool has_forward = false;
  bool has_priority = false;
};

// Returns the median time of a step in ms.
double run(const Settings& settings) {
  ddp::internal::GroupDescription description;
  description.options.size = 1;
  ddp::ProcessGroup group(std::make_unique<ddp::internal::GroupCore>(
      std::move(description), std::make_unique<SleepingBackend>(settings.bucket)));
  std::vector<std::vector<float>> weights(static_cast<std::size_t>(settings.layers), std::vector<float>(kLayerFloats));
  std::vector<ddp::Tensor> parameters;
  for (std::vector<float>& weight : weights) {
    parameters.push_back({"layer " + std::to_string(parameters.size()), weight, {kLayerFloats}});
  }
  ddp::DataParallelOptions options{.buckets = {.first_bytes = 1, .bytes = 1}};
  if (settings.has_priority) options.exchange = ddp::PriorityChunks{kLayerFloats * sizeof(float)};
  ddp::DistributedDataParallel data_parallel(group, parameters, options);
  std::vector<double> times;
  for (int step = 0; step < settings.steps + 2; ++step) {
    const auto began = Clock::now();
    for (std::size_t i = weights.size(); i-- > 0;) {
      std::this_thread::sleep_for(settings.layer);
      data_parallel.mark_ready(i);
    }
    for (std::size_t i = 0; i < weights.size() && settings.has_forward; ++i) {
      data_parallel.wait(i);
      std::this_thread::sleep_for(settings.layer);
    }
    data_parallel.finish();
    if (step > 1) times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - began).count());
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int i, int otherwise) { return argc > i ? std::stoi(argv[i]) : otherwise; };
  Settings settings;
  settings.layers = number(1, settings.layers);
  settings.layer = milliseconds(number(2, 20));
  settings.bucket = milliseconds(number(3, 10));
  settings.steps = number(4, settings.steps);
  std::printf("{\"median\": %.1f, \"ideal\": %lld, \"without overlap\": %lld,\n", run(settings),
              static_cast<long long>((settings.layers * settings.layer + settings.bucket).count()),
              static_cast<long long>((settings.layers * (settings.layer + settings.bucket)).count()));
  settings.bucket *= 4;
  settings.has_forward = true;
  const double by_readiness = run(settings);
  settings.has_priority = true;
  std::printf(" \"with forward\": {\"by readiness\": %.1f, \"by priority\": %.1f}}\n", by_readiness, run(settings));
}

// A training whose ranks fail when lost_ranks_test.py orders it: losing_ranks FOLDER STEPS [FAULT]. It shows in files
// of the folder which steps are finished and with which steps its attempts begin. In step FAULT of the first attempt,
// the last rank exits by itself. With the nccl backend, its parameters are in GPU memory.
#include <ddp/ddp.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t kSize = 3000;

template <typename Value>
Value* map(const std::string& path, std::size_t count) {
  const int file = ::open(path.c_str(), O_RDWR);
  void* const memory = ::mmap(nullptr, count * sizeof(Value), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("cannot map " + path);
  return static_cast<Value*>(memory);
}

// The numbers of faults and places are those of lost_ranks.py.
enum Place { kForward, kBackward, kOptimizer, kFinish };

void fail_if_ordered(unsigned char& order, Place place) {
  if (order == 0 || order % 8 != place) return;
  const int fault = order / 8;
  order = 0;
  if (fault == 2) ::_exit(3);
  if (fault == 3) throw std::runtime_error("a fault");
  if (fault == 4) std::this_thread::sleep_for(std::chrono::hours(1));
  for (int file = 3; file < 1000; ++file) ::shutdown(file, SHUT_RDWR);  // the connections are lost
}

void train(const std::string& folder, std::int64_t steps, std::int64_t fault) {
  ddp::ProcessGroup world = ddp::init();
  const int rank = world.rank();
  unsigned char& order = map<unsigned char>(folder + "/orders", 64)[rank];
  std::int64_t& shown = map<std::int64_t>(folder + "/steps", 64)[rank];

  std::vector<float> weights(kSize, 0.5F);
  std::vector<float> bias(kSize, 0.25F);
  std::vector<ddp::Memory> memory;  // on the GPU
  const auto place = [&](std::vector<float>& values) -> ddp::Buffer {
    if (world.backend() != "nccl") return values;
    memory.push_back(world.allocate(kSize, ddp::DataType::f32, ddp::DeviceType::cuda));
    world.copy(memory.back().buffer(), values);
    return memory.back().buffer();
  };
  ddp::DistributedDataParallel data_parallel(world,
                                             {{"weights", place(weights), {kSize}}, {"bias", place(bias), {kSize}}});
  ddp::Optimizer optimizer(data_parallel, ddp::AdamOptions{.learning_rate = 1e-2});
  std::mt19937 noise(static_cast<unsigned>(rank));

  ddp::CheckpointState state;
  state.tensors = optimizer.state();
  for (const ddp::Tensor& parameter : data_parallel.parameters()) state.tensors.emplace_back(parameter);
  ddp::CheckpointManager checkpoints(folder + "/checkpoints", world);
  std::int64_t step = checkpoints.load_latest(state).value_or(0);
  if (step > 0) {
    std::istringstream(state.rank_values.at("noise")) >> noise;
    if (state.values.at("step") != std::to_string(step)) throw std::runtime_error("the values are of another step");
  }
  std::ofstream(folder + "/begins", std::ios::app)
      << std::getenv("DDP_ATTEMPT") << ' ' + std::to_string(rank) + ' ' + std::to_string(step) + '\n';
  const bool is_faulty = rank == world.size() - 1 && std::string_view(std::getenv("DDP_ATTEMPT")) == "0";
  while (step < steps) {
    if (is_faulty && step == fault) order = 8 * 2 + kBackward;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    fail_if_ordered(order, kForward);
    const float number = std::normal_distribution<float>()(noise);
    for (std::size_t parameter : {0, 1}) {
      std::vector<float>& values = parameter == 0 ? weights : bias;
      if (!memory.empty()) world.copy(values, data_parallel.parameters()[parameter].data, nullptr);
      std::vector<float> gradient(kSize);
      for (std::size_t i = 0; i < kSize; ++i) gradient[i] = values[i] - std::sin(number + static_cast<float>(i));
      if (!memory.empty()) shown = step;  // the copy has waited for the GPU
      world.copy(data_parallel.gradient(parameter), gradient, memory.empty() ? ddp::Stream() : ddp::Stream(nullptr));
    }
    std::ostringstream text;
    text << noise;
    state.rank_values["noise"] = text.str();
    checkpoints.announce_step(step + 1, state);
    data_parallel.mark_ready(0);
    fail_if_ordered(order, kBackward);
    data_parallel.mark_ready(1);
    data_parallel.finish();
    optimizer.step();
    fail_if_ordered(order, kOptimizer);
    ++step;
    state.values["step"] = std::to_string(step);
    fail_if_ordered(order, kFinish);
    checkpoints.finish_step(step, state);
    if (memory.empty()) shown = step;
  }
  std::printf("digest %d %016llx\n", rank, static_cast<unsigned long long>(data_parallel.verify_parameters()));
}

}  // namespace

int main(int count, char** argv) {
  train(argv[1], std::atoll(argv[2]), count > 3 ? std::atoll(argv[3]) : -1);
  return 0;
}

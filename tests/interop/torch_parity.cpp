// Trains a small net on all ranks, with libtorch's modules and ddp::DistributedDataParallel. torch_parity.py does the
// same in PyTorch alone. Both save their parameters, and the script compares them.
//
//   torch_parity FOLDER CASE TYPE [FOLDER CASE TYPE...]      CASE: see kCases; TYPE: f32 or f64
//
// Trains once per case, and writes FOLDER/initial.safetensors and FOLDER/ours.safetensors.
#include <ddp/ddp.h>
#include <ddp/libtorch.h>

#include <torch/torch.h>
#include <torch/version.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <string>

namespace {

constexpr std::int64_t kSamples = 1000;
constexpr std::int64_t kBatch = 8;  // per rank
constexpr int kSteps = 100;

struct Case {
  bool is_adam = false;
  bool is_ours = false;  // uses an optimizer of ddplaunch
  bool is_sharded = false;
  int micro_steps = 1;
};
const std::map<std::string, Case> kCases = {
    {"sgd", {}},
    {"adam", {.is_adam = true}},
    {"our_sgd", {.is_ours = true}},
    {"our_adam", {.is_adam = true, .is_ours = true}},
    {"sharded_adam", {.is_adam = true, .is_ours = true, .is_sharded = true}},
    {"accumulated_sgd", {.micro_steps = 4}},
};

struct NetImpl : torch::nn::Module {
  // A bias before a normalisation has gradients that are only rounding errors, which Adam magnifies.
  torch::nn::Linear first{torch::nn::LinearOptions(16, 64).bias(false)};
  torch::nn::BatchNorm1d norm{64};
  torch::nn::Linear second{64, 64};
  torch::nn::Linear third{64, 10};

  NetImpl() {
    register_module("first", first);
    register_module("norm", norm);
    register_module("second", second);
    register_module("third", third);
    torch::NoGradGuard no_grad;
    std::int64_t number = 0;
    for (torch::Tensor& parameter : parameters()) {
      const torch::Tensor places =
          torch::arange(parameter.numel(), torch::kDouble) + 1000.0 * static_cast<double>(++number);
      parameter.copy_((torch::sin(places * 12.9898) * 0.2).to(torch::kFloat).reshape(parameter.sizes()));
    }
  }
  torch::Tensor forward(const torch::Tensor& x) {
    return third->forward(torch::tanh(second->forward(torch::tanh(norm->forward(first->forward(x))))));
  }
};
TORCH_MODULE(Net);

// Returns the inputs of the samples `indices`.
torch::Tensor inputs_of(const torch::Tensor& indices, torch::ScalarType type) {
  const torch::Tensor places = indices.to(torch::kDouble).unsqueeze(1) * 16 + torch::arange(16, torch::kDouble);
  return torch::sin(places * 78.233).to(type);
}

void train(ddp::ProcessGroup& world, const std::string& folder, const Case& chosen, torch::ScalarType type) {
  ddp::DataParallelOptions options{.buckets = {.first_bytes = 256, .bytes = 8192}};
  if (chosen.is_sharded) options.exchange = ddp::ShardOptimizer{};
  Net module;
  module->to(type);
  ddp::libtorch::DistributedDataParallel net(world, module, options);
  ddp::CheckpointFile initial(folder + "/initial.safetensors", world);
  const std::vector<ddp::Tensor> state = net.state();
  initial.save(state, {});

  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(1e-3));
  torch::optim::AdamW adam(net->parameters(), torch::optim::AdamWOptions(3e-3).weight_decay(0.01));
  const ddp::Optimizer::Options our_sgd = ddp::SgdOptions{.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 1e-3};
  const ddp::Optimizer::Options our_adam = ddp::AdamOptions{.learning_rate = 3e-3, .weight_decay = 0.01};
  ddp::Optimizer ours(net.data_parallel(), chosen.is_adam ? our_adam : our_sgd);

  ddp::DistributedSampler sampler(kSamples, world);
  ddp::Accumulation window = net.accumulate(chosen.micro_steps);
  std::vector<std::int64_t> order;
  std::size_t next = 0;
  std::int64_t epoch = 0;
  for (int step = 0; step < kSteps; ++step) {
    if (next + kBatch > order.size()) {
      sampler.set_epoch(epoch++);
      order = sampler.indices();
      next = 0;
    }
    const torch::Tensor indices = torch::tensor(std::vector<std::int64_t>(
        order.begin() + static_cast<std::ptrdiff_t>(next), order.begin() + static_cast<std::ptrdiff_t>(next) + kBatch));
    next += kBatch;
    window.begin(step + 1 == kSteps);
    torch::nn::functional::cross_entropy(net.forward(inputs_of(indices, type)), indices.remainder(10)).backward();
    if (!window.finish()) continue;
    if (chosen.is_ours) {
      ours.step();
    } else if (chosen.is_adam) {
      adam.step();
    } else {
      sgd.step();
    }
  }
  net.data_parallel().verify_parameters();
  ddp::CheckpointFile(folder + "/ours.safetensors", world).save(state, {});
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 2 && std::string(argv[1]) == "--version") {
      std::printf("%d.%d\n", TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR);
      return 0;
    }
    if (argc == 1 || argc % 3 != 1) throw std::runtime_error("want FOLDER CASE TYPE [FOLDER CASE TYPE...]");
    ddp::ProcessGroup world = ddp::init();
    for (int i = 1; i < argc; i += 3) {
      const bool is_double = std::string(argv[i + 2]) == "f64";
      train(world, argv[i], kCases.at(argv[i + 1]), is_double ? torch::kDouble : torch::kFloat);
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "torch_parity: %s\n", error.what());
    return 1;
  }
}

// Tests what programs do to wrapped libtorch modules, on two ranks. Each case is a small training.
#include <ddp/ddp.h>
#include <ddp/libtorch.h>

#include <torch/torch.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <sstream>
#include <string>

#include "interop/torch_cases.h"
#include "support/require.h"

using ddp::test::expect;
using ddp::test::require;
using Tensor = torch::Tensor;

namespace {

struct BranchesImpl : torch::nn::Module {
  BranchesImpl() {
    for (const char* name : {"a", "b", "c"}) register_parameter(name, torch::zeros({2}));
  }
  Tensor forward(const std::string& uses) {
    Tensor sum = torch::zeros({});
    for (const char name : uses) sum = sum + named_parameters()[std::string(1, name)].sum();
    return sum;
  }
};
TORCH_MODULE(Branches);

struct NormalisedImpl : torch::nn::Module {
  NormalisedImpl() {
    register_module("norm", norm);
    register_module("linear", linear);
  }
  Tensor forward(const Tensor& x) { return linear(norm(x)); }
  torch::nn::BatchNorm1d norm{3};
  torch::nn::Linear linear{3, 1};
};
TORCH_MODULE(Normalised);

ddp::DataParallelOptions finding_unused() {
  ddp::DataParallelOptions options;
  options.unused = ddp::UnusedParameters::find;
  return options;
}

bool has(const Tensor& gradient, double value) {
  return gradient.defined() && (gradient - value).abs().max().item<double>() < 1e-6;
}

// A parameter that another rank has used gets the mean. A parameter that no rank has used is left unchanged.
void unused_parameters(ddp::ProcessGroup& world, bool set_to_none) {
  ddp::libtorch::DistributedDataParallel net(world, Branches(), finding_unused());
  for (int step = 0; step < 3; ++step) {
    for (Tensor& parameter : net->parameters()) {
      if (set_to_none) parameter.mutable_grad().reset();
      if (parameter.grad().defined()) parameter.mutable_grad().zero_();
    }
    net.forward(world.rank() == 0 ? "a" : "b").backward();
    const auto parameters = net->named_parameters();
    require(has(parameters["a"].grad(), 0.5) && has(parameters["b"].grad(), 0.5), "no mean");
    require(!parameters["c"].grad().defined(), "a gradient of what nobody used");
  }
  net.forward("abc").backward();
  net->named_parameters()["c"].mutable_grad().zero_();
  net.forward("a").backward();
  require(has(net->named_parameters()["c"].grad(), 0), "a gradient that was zeroed in place has gone");
}

void join_with_unused(ddp::ProcessGroup& world) {
  ddp::libtorch::DistributedDataParallel net(world, Branches(), finding_unused());
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  ddp::Join join(net.data_parallel(), [&] { optimizer.step(); });
  for (int step = 0; step < 1 + 3 * world.rank(); ++step) {
    for (Tensor& parameter : net->parameters()) parameter.mutable_grad().reset();
    join.begin_step();
    net.forward(step % 2 == 0 ? "a" : "b").backward();
    optimizer.step();
  }
  for (Tensor& parameter : net->parameters()) parameter.mutable_grad().reset();
  join.finish();
  net.data_parallel().verify_parameters();
}

// forward() gives all ranks rank 0's buffers, but a rank without data does not call forward().
void join_with_buffers(ddp::ProcessGroup& world) {
  ddp::libtorch::DistributedDataParallel net(world, Normalised());
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  {
    ddp::Join join(net.data_parallel(), [&] { optimizer.step(); });
    for (int step = 0; step < 2 + world.rank(); ++step) {
      join.begin_step();
      optimizer.zero_grad();
      net.forward(torch::randn({4, 3}) + world.rank()).sum().backward();
      optimizer.step();
    }
    join.finish();
  }
  net.data_parallel().verify_parameters();
  net.forward(torch::randn({4, 3})).sum().backward();
}

void other_memory(ddp::ProcessGroup& world) {
  ddp::libtorch::DistributedDataParallel net(world, Branches());
  std::stringstream saved;
  torch::save(net.module(), saved);
  torch::load(net.module(), saved);
  net.forward(world.rank() == 0 ? "abc" : "aabbcc").backward();
  require(has(net->named_parameters()["a"].grad(), 1.5), "load: no mean");
  net->named_parameters()["a"].set_data(torch::ones({2}));
  net->zero_grad();
  net.forward(world.rank() == 0 ? "abc" : "aabbcc").backward();
  require(has(net->named_parameters()["a"].grad(), 1.5), "set_data: no mean");
  require(has(net->named_parameters()["a"].detach(), 1), "set_data: lost");
  net.data_parallel().verify_parameters();
  net->to(torch::kDouble);
  expect("Wrap it after to()", [&] { net.forward("abc"); });
}

// A module's buffers may get other memory, too. All ranks still get rank 0's.
void other_memory_of_buffers(ddp::ProcessGroup& world) {
  ddp::libtorch::DistributedDataParallel net(world, Normalised());
  std::stringstream saved;
  torch::save(net.module(), saved);
  torch::load(net.module(), saved);
  net->norm->running_mean.fill_(world.rank() + 1);
  net.forward(torch::ones({4, 3})).sum().backward();
  require(has(net->norm->running_mean, 1), "the buffer is not rank 0's");
}

void late_parameters(ddp::ProcessGroup& world) {
  ddp::libtorch::DistributedDataParallel net(world, Branches());
  net->register_parameter("d", torch::zeros({1}));
  expect("'d' is trained, but was not", [&] { net.forward("abc"); });
}

// A module outlives its wrapper. It may be used afterwards, and wrapped again.
void outlived(ddp::ProcessGroup& world) {
  Branches module;
  torch::optim::SGD optimizer(module->parameters(), 0.1);
  for (int round = 0; round < 3; ++round) {
    {
      ddp::libtorch::DistributedDataParallel net(world, module);
      net.forward(world.rank() == 0 ? "abc" : "aabbcc").backward();
      require(has(module->named_parameters()["b"].grad(), 1.5), "no mean");
    }
    optimizer.step();
    module->zero_grad();
    module->forward("a").backward();
    for (Tensor& parameter : module->parameters()) {
      if (parameter.grad().defined()) parameter.mutable_grad().zero_();  // libtorch 2 drops gradients in zero_grad()
    }
  }
}

// Throws in the middle of backward. All ranks catch the exception.
struct Fails : torch::autograd::Function<Fails> {
  static Tensor forward(torch::autograd::AutogradContext*, Tensor x) { return x.clone(); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*, torch::autograd::variable_list) {
    throw std::runtime_error("no memory");
  }
};

void failed_backward(ddp::ProcessGroup& world, bool synchronises) {
  ddp::libtorch::DistributedDataParallel net(world, Branches());
  for (int step = 0; step < 2; ++step) {
    {
      std::unique_ptr<ddp::NoSync> local;
      if (!synchronises) local.reset(new ddp::NoSync(net.no_sync()));
      bool failed = false;
      try {
        (net.forward("c") + Fails::apply(net->named_parameters()["a"]).sum()).backward();
      } catch (const std::runtime_error&) {
        failed = true;
      }
      require(failed, "backward did not fail");
    }
    net->zero_grad();
    net.forward(world.rank() == 0 ? "abc" : "aabbcc").backward();
    require(has(net->named_parameters()["c"].grad(), 1.5), "no mean after a step that failed");
  }
}

void refused(ddp::ProcessGroup& world) {
  struct OneImpl : torch::nn::Module {
    explicit OneImpl(const Tensor& tensor) { register_parameter("w", tensor); }
  };
  const auto wrap = [&](const Tensor& tensor) {
    ddp::libtorch::ModuleReducer reducer(world, std::make_shared<OneImpl>(tensor), {});
  };
  expect("'w' is not contiguous", [&] { wrap(torch::zeros({2, 3}).t()); });
  expect("'w' is of type", [&] { wrap(torch::zeros({2}, torch::kComplexFloat)); });
}

// The runtime keeps temporary tensors until the operation has ended.
void tensor_collectives(ddp::ProcessGroup& world) {
  const double rank = world.rank();
  const Tensor mean = torch::full({1 << 16}, rank);
  ddp::libtorch::all_reduce(world, mean, ddp::ReduceOp::average).wait();
  require(has(mean, 0.5), "all_reduce");
  const Tensor taken = torch::zeros({2, 3}, torch::kLong);
  ddp::libtorch::all_gather(world, taken, torch::full({3}, world.rank(), torch::kLong)).wait();
  require(taken.sum().item<int>() == 3 && taken[1][0].item<int>() == 1, "all_gather");
  const Tensor parts[] = {torch::zeros({2}), torch::zeros({1})};
  ddp::libtorch::all_gather(world, parts, torch::full({world.rank() == 0 ? 2 : 1}, rank + 1)).wait();
  require(has(parts[0], 1) && has(parts[1], 2), "all_gather of parts");
  const Tensor half = torch::zeros({2});
  ddp::libtorch::reduce_scatter(world, half, torch::arange(4, torch::kFloat)).wait();
  require(half[0].item<double>() == 4 * rank && half[1].item<double>() == 2 + 4 * rank, "reduce_scatter");
  const Tensor turned = torch::zeros({2});
  ddp::libtorch::all_to_all(world, turned, torch::full({2}, rank)).wait();
  require(turned[0].item<double>() == 0 && turned[1].item<double>() == 1, "all_to_all");
  ddp::libtorch::reduce(world, mean, 1).wait();
  require(has(mean, world.rank() == 1 ? 1 : 0.5), "reduce");
  ddp::libtorch::broadcast(world, mean, 1).wait();
  require(has(mean, 1), "broadcast");
  const Tensor all = world.rank() == 0 ? torch::zeros({2}) : Tensor();
  ddp::libtorch::gather(world, all, torch::full({1}, rank + 5), 0).wait();
  require(world.rank() != 0 || all[1].item<double>() == 6, "gather");
  const Tensor own = torch::zeros({1});
  ddp::libtorch::scatter(world, own, all, 0).wait();
  require(has(own, rank + 5), "scatter");
  if (world.rank() == 0) ddp::libtorch::send(world, torch::full({4}, 9.0), 1).wait();
  const Tensor received = torch::zeros({4});
  if (world.rank() == 1) ddp::libtorch::recv(world, received, 0).wait();
  require(world.rank() == 0 || has(received, 9), "send and recv");
  expect("the tensor is not contiguous", [&] { (void)ddp::libtorch::all_reduce(world, torch::zeros({2, 3}).t()); });
  expect("the tensor is undefined", [&] { (void)ddp::libtorch::broadcast(world, Tensor(), 0); });
}

void another_libtorch() {
  ddp::libtorch::require_libtorch(TORCH_VERSION);
  expect("built for libtorch " TORCH_VERSION ", and the program was compiled with 9.8.7",
         [] { ddp::libtorch::require_libtorch("9.8.7+cu999"); });
}

}  // namespace

int main() {
  try {
    torch::set_num_threads(1);
    ddp::ProcessGroup world = ddp::init();
    const std::vector<ddp::test::TorchCase> cases = {
        {"unused, zeroed", [&] { unused_parameters(world, false); }},
        {"unused, none", [&] { unused_parameters(world, true); }},
        {"join with unused", [&] { join_with_unused(world); }},
        {"join with buffers", [&] { join_with_buffers(world); }},
        {"other memory", [&] { other_memory(world); }},
        {"other memory of buffers", [&] { other_memory_of_buffers(world); }},
        {"late parameters", [&] { late_parameters(world); }},
        {"outlived", [&] { outlived(world); }},
        {"failed backward", [&] { failed_backward(world, true); }},
        {"failed backward in no_sync", [&] { failed_backward(world, false); }},
        {"refused", [&] { refused(world); }},
        {"collectives of tensors", [&] { tensor_collectives(world); }},
        {"another libtorch", [&] { another_libtorch(); }},
    };
    if (!ddp::test::all_pass(world, cases)) return 1;
    world.finalize();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

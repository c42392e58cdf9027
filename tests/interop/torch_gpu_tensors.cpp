// Tests collectives of libtorch's tensors on GPUs, on two ranks.
#include <ddp/ddp.h>
#include <ddp/libtorch.h>

#include <c10/core/StreamGuard.h>
#include <torch/torch.h>

#include <memory>

#include "interop/torch_gpu_cases.h"
#include "support/deadline.h"
#include "support/software_torch/device.h"

using software_torch::Gate;

// Operations follow the current stream, and the stream follows them. The host does not wait.
void ddp::test::tensors_in_order(ddp::ProcessGroup& world) {
  const auto on_gpu = torch::TensorOptions(own_gpu(world)).dtype(torch::kFloat);
  const auto rank = static_cast<double>(world.rank());
  const c10::StreamGuard guard(software_torch::make_stream(own_gpu(world).index()));
  const torch::Tensor tensor = torch::zeros({1000}, on_gpu);
  const torch::Tensor all = torch::zeros({2, 1000}, on_gpu);
  for (int round = 0; round < 3; ++round) {
    const bool is_warm = round > 0;  // the first operation of a kind connects the ranks
    std::unique_ptr<Gate> gate;
    if (is_warm) gate = std::make_unique<Gate>(guard.current_stream());
    tensor.fill_(rank + round);
    ddp::libtorch::all_reduce(world, tensor, ddp::ReduceOp::sum).wait();
    tensor.add_(1);
    ddp::libtorch::all_gather(world, all, tensor).wait();
    const torch::Tensor sum = all.sum();
    if (gate) gate->open();
    require(sum.item<double>() == 2 * 1000 * (2 + 2 * round), "all_reduce and all_gather");
  }
}

// The program may drop a tensor at once. libtorch must not give its memory to another one while it is being sent.
void ddp::test::temporary_tensors(ddp::ProcessGroup& world) {
  const auto on_gpu = torch::TensorOptions(own_gpu(world)).dtype(torch::kFloat);
  torch::Tensor result = torch::zeros({500}, on_gpu);
  for (int round = 0; round < 3; ++round) {
    const void* place = nullptr;
    std::unique_ptr<ddp::Work> work;
    if (world.rank() == 0) {
      torch::Tensor sent = torch::full({500}, 1 + round, on_gpu);
      place = sent.data_ptr();
      work = std::make_unique<ddp::Work>(ddp::libtorch::reduce(world, sent, 1));
      sent.reset();
      require(software_torch::is_allocated(place), "the memory of a tensor on its way was freed");
      torch::full({500}, 99, on_gpu);
    }
    world.monitored_barrier();  // rank 1 takes part only now
    if (world.rank() == 1) {
      result.fill_(0);
      work = std::make_unique<ddp::Work>(ddp::libtorch::reduce(world, result, 1));
    }
    work->wait();
    require(world.rank() == 0 || has(result, 1 + round), "another tensor was sent");
    const auto is_freed = [&] { return !software_torch::is_allocated(place); };
    require(world.rank() == 1 || eventually(is_freed), "a tensor is kept for ever");
  }
}

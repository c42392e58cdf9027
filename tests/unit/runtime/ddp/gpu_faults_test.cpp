// Lets calls of CUDA and NCCL fail in turn, from the start of a group to its end. It is the GPU in software.
#include <ddp/distributed_data_parallel.h>
#include <ddp/loss_scaler.h>
#include <ddp/optimizer.h>

#include <array>
#include <string>

#include "support/catch.h"
#include "support/failing_calls.h"
#include "support/gpu_ranks.h"
#include "support/placed_memory.h"

using namespace ddp;
using namespace ddp::test;
using namespace std::chrono_literals;

namespace {

long streams_now() {
  std::array<long, 4> things{};
  gpu_function<void(long*)>("fake_gpu_counts")(things.data());
  return things[0];
}

// Returns whether no kernel or copy has broken the GPU, such as by memory that was freed too early.
bool is_whole(int device) {
  const CudaApi cuda = gpu_libraries()->cuda;
  CudaEventHandle event = nullptr;
  if (cuda.set_device(device) != kCudaSuccess || cuda.create_event(event, kCudaUntimedEvent) != kCudaSuccess)
    return false;
  return cuda.destroy_event(event) == kCudaSuccess;
}

// Trains in mixed precision with a sharded optimizer, clipping and loss scaling. Returns the first value.
double train(ProcessGroup& group) {
  PlacedMemory memory(group, DeviceType::cuda);
  const std::vector<Tensor> parameters = {{"half", memory.make(std::vector<BFloat16>(70, BFloat16(1.0F))), {70}},
                                          {"full", memory.make(std::vector<float>(30, 1.0F)), {30}}};
  DataParallelOptions options;
  options.stream = memory.stream();
  options.buckets.first_bytes = 1;
  options.exchange = ShardOptimizer{};
  DistributedDataParallel data_parallel(group, parameters, options);
  Optimizer optimizer(data_parallel, AdamOptions{.learning_rate = 0.25});
  LossScaler scaler({.scale = 4});
  for (int step = 0; step < 2; ++step) {
    data_parallel.zero_gradients();
    for (const std::size_t i : {1, 0}) {
      memory.fill(data_parallel.gradient(i), 4);
      data_parallel.mark_ready(i);
    }
    data_parallel.finish();
    data_parallel.clip_gradients(1.0 * scaler.scale());
    if (scaler.unscale(optimizer)) optimizer.step();
  }
  data_parallel.verify_parameters();
  return memory.first(parameters[0].data);
}

struct Run {
  std::vector<RankOutcome> outcomes;
  std::vector<double> values = {0, 0};
  long calls = 0;
  std::string names;  // of the functions that failed
  std::chrono::steady_clock::duration took{};
};

// Runs two ranks. A call of rank 1 fails.
Run run(long number, FailingCalls::Until until) {
  Run result;
  FailingCalls calls(number, until);
  const auto make = [&](const BackendOptions& options,
                        const std::shared_ptr<Store>& store) -> std::unique_ptr<Backend> {
    const Libraries libraries = gpu_libraries();
    libraries->closing_limit = 2s;
    return std::make_unique<NcclBackend>(options, store, options.rank == 1 ? calls.over(libraries) : libraries);
  };
  const auto begun = std::chrono::steady_clock::now();
  result.outcomes = RankThreads(make, 2, 20s).outcomes([&](RankThreads::Rank& self) {
    const auto rank = static_cast<std::size_t>(self.rank());
    const RankOutcome outcome = outcome_of([&] { result.values[rank] = train(self.group()); });
    self.leaves();
    if (outcome.kind) throw Error(*outcome.kind, outcome.message);
  });
  result.took = std::chrono::steady_clock::now() - begun;
  result.calls = calls.calls();
  for (const std::string& name : calls.failed()) result.names += name + " ";
  return result;
}

}  // namespace

TEST_CASE("a failing CUDA or NCCL call is an error on every rank or changes nothing", "[slow]") {
  if (on_real_gpu()) return;
  const auto until = GENERATE(FailingCalls::Until::once, FailingCalls::Until::always);
  const Run clean = run(0, until);
  REQUIRE_FALSE((clean.outcomes[0].kind || clean.outcomes[1].kind));
  REQUIRE(clean.values[0] == clean.values[1]);
  REQUIRE(clean.calls > 500);
  const long streams = streams_now();
  // Polls make the number of calls differ, so the numbers are no names of calls.
  for (long number = 1; number <= clean.calls; number += number < 60 ? 3 : 31) {
    const Run failed = run(number, until);
    INFO("call " << number << " of " << clean.calls << ": " << failed.names);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      const RankOutcome& outcome = failed.outcomes[rank];
      INFO("rank " << rank << ": " << outcome.message);
      CHECK((outcome.kind ? !outcome.message.empty() : failed.values[rank] == clean.values[rank]));
      CHECK(is_whole(static_cast<int>(rank)));
    }
    CHECK(failed.took < 15s);
    CHECK(eventually([&] { return streams_now() <= streams; }));
  }
}

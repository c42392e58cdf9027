// The code of docs/explanation/data-parallelism.md.
#include <ddp/ddp.h>

#include <cstdio>
#include <span>
#include <vector>

namespace {

struct Model {
  std::vector<float> first = std::vector<float>(64);
  std::vector<float> last = std::vector<float>(64);
};

void backward_of_last(std::span<float>) {}
void backward_of_first(std::span<float>) {}

void step(ddp::DistributedDataParallel& data_parallel, ddp::Optimizer& optimizer) {
  // [step]
  data_parallel.zero_gradients();
  backward_of_last(data_parallel.gradient<float>(1));
  data_parallel.mark_ready(1);                          // the bucket of the last layer starts its all-reduce
  backward_of_first(data_parallel.gradient<float>(0));  // runs at the same time
  data_parallel.mark_ready(0);
  data_parallel.finish();  // waits for what is still under way
  optimizer.step();
  // [/step]
}

void show(const ddp::DistributedDataParallel& data_parallel) {
  // [statistics]
  const ddp::StepStatistics& statistics = data_parallel.statistics();
  std::printf("computing %.1f ms, waiting for gradients %.1f ms, hidden %.0f %%\n", 1e3 * statistics.compute_seconds,
              1e3 * statistics.exposed_seconds, 100 * statistics.overlap_ratio());
  // [/statistics]
}

void accumulate(ddp::DistributedDataParallel& data_parallel, ddp::Optimizer& optimizer) {
  // [no_sync]
  {
    const ddp::NoSync local = data_parallel.no_sync();
    backward_of_first(data_parallel.gradient<float>(0));
    data_parallel.mark_ready(1);
    data_parallel.mark_ready(0);
    data_parallel.finish();  // adds up on this rank, and sends nothing
  }
  backward_of_first(data_parallel.gradient<float>(0));
  data_parallel.mark_ready(1);
  data_parallel.mark_ready(0);
  data_parallel.finish();  // reduces the sum of both micro-steps
  // [/no_sync]
  optimizer.step();
}

}  // namespace

int main() {
  ddp::ProcessGroup world = ddp::init();
  Model model;
  // [sharded]
  ddp::DistributedDataParallel data_parallel(world, {{"first", model.first, {64}}, {"last", model.last, {64}}},
                                             {.exchange = ddp::ShardOptimizer{}});
  ddp::Optimizer optimizer(data_parallel, ddp::AdamOptions{.learning_rate = 1e-3});
  // [/sharded]
  step(data_parallel, optimizer);
  data_parallel.zero_gradients();
  accumulate(data_parallel, optimizer);
  if (world.rank() == 0) show(data_parallel);
  world.finalize();
}

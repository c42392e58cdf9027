// The code of docs/reference/collectives.md.
#include <ddp/ddp.h>

#include <vector>

namespace {

void overlap() {
  // [overlap]
  ddp::ProcessGroup world = ddp::init();
  std::vector<float> gradients(1024, 1.0f);
  ddp::Work work = world.all_reduce(gradients, ddp::ReduceOp::average);  // returns at once
  // Compute something else here. Do not touch `gradients`.
  work.wait();  // now each element is the mean over all ranks
  // [/overlap]
}

void compute_more(ddp::Stream) {}
void update(ddp::Stream, const ddp::Memory&) {}

void on_gpu(const ddp::ProcessGroup& world, ddp::Stream stream) {
  // [stream]
  ddp::Memory gradients = world.allocate(1 << 20, ddp::DataType::f32, ddp::DeviceType::cuda);
  ddp::Work work = world.all_reduce(gradients, ddp::ReduceOp::average, {.stream = stream});
  compute_more(stream);       // runs at the same time as the all-reduce
  work.wait();                // returns at once: the stream waits, not the host
  update(stream, gradients);  // runs after the all-reduce
  // [/stream]
}

void in_a_batch(const ddp::ProcessGroup& world, std::vector<std::vector<float>>& buffers) {
  // [batch]
  std::vector<ddp::Work> works;
  {
    const ddp::CollectiveBatch batch = world.batch();
    for (std::vector<float>& buffer : buffers) works.push_back(world.all_reduce(buffer));
  }  // all of them begin together here
  for (ddp::Work& work : works) work.wait();
  // [/batch]
}

}  // namespace

int main() {
  overlap();
  const ddp::ProcessGroup world = ddp::init();
  std::vector<std::vector<float>> buffers(2, std::vector<float>(8));
  in_a_batch(world, buffers);
  if (world.device().type == ddp::DeviceType::cuda) on_gpu(world, nullptr);
}

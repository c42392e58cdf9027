// gpu_hanging_worker: all-reduces on streams of the GPU in software (support/fake_gpu), for
// integration/gpu_hang_test.py. At step 20, an endless operation precedes the collective on the stream of rank 1.
#include <ddp/ddp.h>

#include <cuda_runtime.h>
#include <unistd.h>

#include <cstdio>

namespace {

void compute_for_ever() {
  while (true) ::sleep(1);
}

}  // namespace

int main() {
  ddp::ProcessGroup world = ddp::init();
  cudaStream_t stream = nullptr;
  cudaStreamCreate(&stream);
  const ddp::Memory values = world.allocate(1024, ddp::DataType::f32, ddp::DeviceType::cuda);
  for (int step = 0; step < 40; ++step) {
    if (step == 20 && world.rank() == 1) software_cuda::put(stream, compute_for_ever);
    world.all_reduce(values, ddp::ReduceOp::average, {.name = "bucket 0", .stream = stream}).wait();
    cuStreamSynchronize(stream);
  }
  if (world.rank() == 0) std::puts("done");
  world.finalize();
}

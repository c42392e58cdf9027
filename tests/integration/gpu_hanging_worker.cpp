// gpu_hanging_worker: all-reduces on streams of the GPU in software (support/fake_gpu), for
// integration/gpu_hang_test.py. At step 20, an operation precedes the collective on the stream of rank 1. It takes as
// many seconds as the first argument says, or never ends.
#include <ddp/ddp.h>

#include <cuda_runtime.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace {

unsigned seconds = 0;

void compute() {
  do ::sleep(seconds == 0 ? 1 : seconds);
  while (seconds == 0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) seconds = static_cast<unsigned>(std::atoi(argv[1]));
  ddp::ProcessGroup world = ddp::init();
  cudaStream_t stream = nullptr;
  cudaStreamCreate(&stream);
  const ddp::Memory values = world.allocate(1024, ddp::DataType::f32, ddp::DeviceType::cuda);
  for (int step = 0; step < 40; ++step) {
    if (step == 20 && world.rank() == 1) software_cuda::put(stream, compute);
    world.all_reduce(values, ddp::ReduceOp::average, {.name = "bucket 0", .stream = stream}).wait();
    cuStreamSynchronize(stream);
    if (step == 20) ::sleep(3);  // the launcher sees that the job goes on
  }
  if (world.rank() == 0) std::puts("done");
  world.finalize();
}

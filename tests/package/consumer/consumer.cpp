// All ranks add their rank; rank 0 prints the sum. Uses each public header through the umbrella.
#include <ddp/ddp.h>

#include <cstdio>

int main() {
  try {
    ddp::ProcessGroup world = ddp::init();
    std::vector<float> sum = {static_cast<float>(world.rank())};
    world.all_reduce(sum).wait();
    if (world.rank() == 0) std::printf("sum of %d ranks: %.0f\n", world.size(), static_cast<double>(sum[0]));
    return 0;
  } catch (const ddp::Error& error) {
    std::fprintf(stderr, "consumer: %s\n", error.what());
    return 1;
  }
}

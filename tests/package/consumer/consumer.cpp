// The ranks add up their numbers, and rank 0 prints the sum. The program uses each public header through the umbrella
// header.
#include <ddp/ddp.h>

#include <cstdio>

int main() {
  try {
    ddp::ProcessGroup world = ddp::init();
    std::vector<float> sum = {static_cast<float>(world.rank())};
    world.all_reduce(sum).wait();
    // The program uses one symbol of every part of the public API, because each must be exported.
    const auto store = ddp::make_prefix_store("p", ddp::make_memory_store(std::chrono::seconds(1)));
    store->set("k", ddp::to_string(ddp::ErrorKind::timeout));
    const ddp::DistributedSampler sampler(10, world);
    ddp::DistributedDataParallel data_parallel(world, {{"sum", sum, {1}}});
    ddp::CheckpointFile checkpoint("/no-such-file", world);
    if (store->get("k") != "timeout" || sampler.indices().empty() || checkpoint.exists()) return 1;
    try {
      ddp::connect_tcp_store("127.0.0.1", 1, std::chrono::milliseconds(1));
      return 1;
    } catch (const ddp::Error& error) {
      if (error.kind() != ddp::ErrorKind::unavailable) return 1;
    }
    ddp::ProcessGroup again = ddp::init();  // this is a second group in the same store
    again.barrier().wait();
    if (world.rank() == 0) std::printf("sum of %d ranks: %.0f\n", world.size(), static_cast<double>(sum[0]));
    return 0;
  } catch (const ddp::Error& error) {
    std::fprintf(stderr, "consumer: %s\n", error.what());
    return 1;
  }
}

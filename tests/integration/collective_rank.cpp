// collective_rank: runs a rank of collective_kill_test.py. It calls one collective after the other until one fails,
// or until it is killed. Then it prints {"rank", "kind", "peer", "at" (seconds of the monotonic clock), "message"} and
// ends with 3.
#include <ddp/ddp.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

namespace {

// Makes the next call of a sequence that is the same on every rank.
void call(ddp::ProcessGroup& group, std::mt19937& random, std::vector<ddp::Memory>& shared) {
  const auto ranks = static_cast<std::size_t>(group.size());
  const std::size_t counts[] = {1, 500, 20'000, 400'000};
  const std::size_t count = counts[random() % 4];
  const bool in_shared = random() % 2 == 0;
  std::vector<float> own(in_shared ? 0 : count * ranks);
  const ddp::Buffer whole = in_shared ? shared[random() % 2].buffer().slice(0, count * ranks) : ddp::Buffer(own);
  std::vector<float> host_part(count);
  ddp::Buffer part = host_part;
  if (whole.device == ddp::DeviceType::cuda) part = shared[2].buffer().slice(0, count);
  const int next = (group.rank() + 1) % group.size();
  const int previous = (group.rank() + group.size() - 1) % group.size();
  switch (random() % 8) {
    case 0:
      return group.barrier().wait();
    case 1:
      return group.broadcast(whole, static_cast<int>(random() % ranks)).wait();
    case 2:
      return group.all_gather(whole, part).wait();
    case 3:
      return group.reduce_scatter(part, whole).wait();
    case 4: {
      // One of the two may fail while the other one is in progress.
      static std::vector<float> sent(400'000);
      static std::vector<float> taken(400'000);
      ddp::Work given = group.send(ddp::Buffer(sent).slice(0, count), next);
      group.recv(ddp::Buffer(taken).slice(0, count), previous).wait();
      return given.wait();
    }
    default:
      return group.all_reduce(whole, random() % 2 == 0 ? ddp::ReduceOp::sum : ddp::ReduceOp::max).wait();
  }
}

// Calls collectives until a call throws, and prints the error.
void call_until_failure(ddp::ProcessGroup& group, unsigned seed) {
  try {
    std::vector<ddp::Memory> shared;
    const auto device = group.backend() == "nccl" ? ddp::DeviceType::cuda : ddp::DeviceType::cpu;
    for (int i = 0; i < 3; ++i) {
      shared.push_back(group.allocate(400'000 * static_cast<std::size_t>(group.size()), ddp::DataType::f32, device));
    }
    std::mt19937 random(seed);
    group.barrier().wait();
    std::printf("ready\n");
    std::fflush(stdout);
    while (true) call(group, random, shared);
  } catch (const ddp::Error& error) {
    const double at = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    std::printf("{\"rank\": %d, \"kind\": \"%s\", \"peer\": %d, \"at\": %.6f}\n", group.rank(),
                std::string(ddp::to_string(error.kind())).c_str(), error.peer(), at);
    std::fflush(stdout);
    throw;
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    ddp::ProcessGroup group = ddp::init();
    call_until_failure(group, argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 1);
  } catch (const ddp::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
}

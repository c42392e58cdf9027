// nccl_profiler_bench VERSION PLUGIN...: the host's time that profiler plug-ins of NCCL add to a collective, in
// nanoseconds. NCCL is played: its events come without a GPU, in its order. What the player itself takes is measured
// with a plug-in that does nothing, and subtracted. The page and the ring are those of a worker.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "launcher/run/ranks/record_ring.h"
#include "launcher/run/ranks/worker_page.h"
#include "support/nccl_player.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kCalls = 200'000;
constexpr int kRounds = 15;

double nanoseconds_per_call(ddp::test::NcclPlayer& player, ddp::test::NcclPlayer::Communicator& comm) {
  const auto begun = Clock::now();
  for (int i = 0; i < kCalls; ++i) player.collective(comm, "AllReduce", 1 << 20);
  return std::chrono::duration<double, std::nano>(Clock::now() - begun).count() / kCalls;
}

}  // namespace

int main(int argc, char** argv) try {
  const int version = argc > 1 ? std::atoi(argv[1]) : ddp::test::kNewestNcclProfiler;
  const ddp::launcher::WorkerPage page(0, 0, 0);
  const ddp::launcher::RecordRing ring(ddp::wire::RecordMode::steps, 1);
  ::setenv("DDP_PAGE_FD", std::to_string(page.descriptor()).c_str(), 1);
  ::setenv("DDP_RECORD_FD", std::to_string(ring.descriptor()).c_str(), 1);
  std::vector<std::string> plugins = {DDP_IDLE_PLUGIN, DDP_NCCL_PROFILER};
  plugins.insert(plugins.end(), argv + std::min(argc, 2), argv + argc);
  std::vector<std::vector<double>> times(plugins.size());
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < plugins.size(); ++i) {
      ddp::test::NcclPlayer player(plugins[i], version);
      auto comm = player.init(static_cast<std::uint64_t>(round) * 100 + i + 1, 2, 0);
      times[i].push_back(nanoseconds_per_call(player, comm));
      player.finalize(comm);
    }
  }
  std::vector<double> medians;
  for (std::vector<double>& each : times) {
    std::nth_element(each.begin(), each.begin() + kRounds / 2, each.end());
    medians.push_back(each[kRounds / 2]);
  }
  for (std::size_t i = 0; i < plugins.size(); ++i) {
    std::printf("%-60s %7.1f ns a collective, %7.1f ns of it by the plug-in\n",
                plugins[i].substr(plugins[i].rfind('/') + 1).c_str(), medians[i], medians[i] - medians[0]);
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "nccl_profiler_bench: %s\n", error.what());
  return 1;
}

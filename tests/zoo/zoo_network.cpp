// In these programs the network is slow or is lost. They need their own network (expected.py), and the gloo backend.
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "zoo/zoo.h"

namespace zoo {
namespace {

// Uses `ip` rather than `tc netem`, which few kernels have.
void lose_network() {
  run("ip link set lo down");
}

const std::map<std::string, Action> kNetwork = {
    {"has_a_slow_network",
     [](ddp::ProcessGroup& world) {
       if (world.rank() == 1) run("tc qdisc replace dev lo root tbf rate 1500kbit burst 128kb latency 60s");
       std::vector<float> values(std::size_t{1} << 18);
       world.all_reduce(values).wait();
       if (world.rank() == 1) run("tc qdisc delete dev lo root");
     }},
    {"loses_the_network", of_rank_one([] { lose_network(); })},
    {"loses_the_network_and_computes",
     [](ddp::ProcessGroup& world) {
       std::thread([] { compute_for(1e6); }).detach();
       if (world.rank() == 1) lose_network();
     }},
};

}  // namespace

std::map<std::string, Action> network() {
  const bool can_be_tried =
      ::geteuid() == 0 && std::system("command -v tc >/dev/null && unshare --net true") == 0;  // NOLINT
  return can_be_tried ? kNetwork : std::map<std::string, Action>();
}

}  // namespace zoo

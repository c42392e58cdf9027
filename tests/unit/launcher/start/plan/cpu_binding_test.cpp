#include "launcher/start/plan/cpu_binding.h"

#include <algorithm>

#include "support/catch.h"

using namespace ddp::launcher;
using Cpus = std::vector<int>;

namespace {

// Describes two sockets with two NUMA nodes each. A NUMA node has four cores of two CPUs, in two caches. There are CPUs
// 0-31, and CPUs 0 and 1 share a core.
CpuTopology machine() {
  CpuTopology topology;
  for (int cpu = 0; cpu < 32; ++cpu) topology.cpus.push_back({cpu, cpu / 2, cpu / 4, cpu / 8, cpu / 16});
  return topology;
}

std::vector<WorkerPlace> near(const std::vector<int>& nodes) {
  std::vector<WorkerPlace> places;
  for (const int node : nodes) places.push_back({std::to_string(places.size()), node});
  return places;
}

Cpus range(int first, int last) {
  Cpus cpus;
  for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  return cpus;
}

std::vector<Cpus> cpus(NumaBinding mode, const std::vector<WorkerPlace>& workers,
                       const CpuTopology& topology = machine()) {
  const auto bindings = bind_cpus(mode, topology, workers);
  if (!bindings) FAIL(bindings.error().message);
  std::vector<Cpus> result;
  for (const WorkerBinding& binding : bindings.value()) result.push_back(binding.cpus);
  return result;
}

}  // namespace

TEST_CASE("a worker bound to a NUMA node runs on the CPUs near its GPU and allocates memory there") {
  const auto bindings = bind_cpus(NumaBinding::node, machine(), near({2, 0, 2})).value();
  REQUIRE(bindings.size() == 3);
  CHECK(bindings[0].cpus == range(16, 23));
  CHECK(bindings[0].memory_nodes == std::vector{2});
  CHECK(bindings[0].description == "NUMA node 2, CPUs 16-23 (near GPU 0)");
  CHECK(bindings[1].cpus == range(0, 7));
  CHECK(bindings[2].cpus == range(16, 23));
}

TEST_CASE("a worker bound to a socket may use all NUMA nodes of the socket") {
  const auto bindings = bind_cpus(NumaBinding::socket, machine(), near({3})).value();
  CHECK(bindings[0].cpus == range(16, 31));
  CHECK(bindings[0].memory_nodes == std::vector{2, 3});
  CHECK(bindings[0].description == "NUMA nodes 2-3, CPUs 16-31 (near GPU 0)");
}

TEST_CASE("exclusively bound workers share a NUMA node's cores evenly without overlap") {
  CHECK(cpus(NumaBinding::exclusive, near({0, 0})) == std::vector{range(0, 3), range(4, 7)});
  CHECK(cpus(NumaBinding::exclusive, near({1, 0, 1})) == std::vector{range(8, 11), range(0, 7), range(12, 15)});
  // Three workers share four cores. The first one gets two.
  CHECK(cpus(NumaBinding::exclusive, near({0, 0, 0})) == std::vector{range(0, 3), Cpus{4, 5}, Cpus{6, 7}});
}

TEST_CASE("exclusively bound workers never share a core, whatever their number") {
  for (std::size_t count = 1; count <= 4; ++count) {
    std::vector<int> all;
    for (const Cpus& mine : cpus(NumaBinding::exclusive, near(std::vector<int>(count, 3)))) {
      all.insert(all.end(), mine.begin(), mine.end());
    }
    std::ranges::sort(all);
    CHECK(all == range(24, 31));
  }
}

TEST_CASE("more exclusively bound workers than cores are an error") {
  const auto bindings = bind_cpus(NumaBinding::exclusive, machine(), near({1, 1, 1, 1, 1}));
  REQUIRE_FALSE(bindings.ok());
  CHECK(bindings.error().message ==
        "--numa-binding=exclusive: 5 workers on NUMA node 1, which has 4 cores available. Use fewer workers or "
        "--numa-binding=node.");
}

TEST_CASE("each worker gets its own core complex as long as there are enough") {
  CHECK(cpus(NumaBinding::core_complex, near({0, 0, 1, 0})) ==
        std::vector{range(0, 3), range(4, 7), range(8, 11), range(0, 3)});
}

TEST_CASE("a core complex that the affinity mask cuts is used last") {
  CpuTopology topology = machine();
  std::erase_if(topology.cpus, [](const CpuPlace& place) { return place.cpu < 3; });
  CHECK(cpus(NumaBinding::core_complex, near({0, 0}), topology) == std::vector{range(4, 7), Cpus{3}});
}

TEST_CASE("without GPUs workers are spread over the NUMA nodes in turn") {
  const std::vector<WorkerPlace> workers(5);
  CHECK(cpus(NumaBinding::node, workers) ==
        std::vector{range(0, 7), range(8, 15), range(16, 23), range(24, 31), range(0, 7)});
  CHECK(bind_cpus(NumaBinding::node, machine(), workers).value()[1].description == "NUMA node 1, CPUs 8-15");
}

TEST_CASE("a GPU with an unknown NUMA node is reported") {
  const auto bindings = bind_cpus(NumaBinding::node, machine(), {{"GPU-5f", std::nullopt}}).value();
  CHECK(bindings[0].description == "NUMA node 0, CPUs 0-7 (location of GPU GPU-5f unknown)");
}

TEST_CASE("a GPU near CPUs outside of the affinity mask is an error with the reason") {
  CpuTopology topology = machine();
  std::erase_if(topology.cpus, [](const CpuPlace& place) { return place.numa_node == 1; });
  const auto bindings = bind_cpus(NumaBinding::node, topology, near({1}));
  REQUIRE_FALSE(bindings.ok());
  CHECK(bindings.error().message.find("GPU 0 is near NUMA node 1, but none of its CPUs may be used here") !=
        std::string::npos);
}

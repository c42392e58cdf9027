#include "launcher/start/facts/cpu_topology.h"

#include <cstdlib>

#include "launcher/start/facts/resource_limits.h"
#include "support/catch.h"

using namespace ddp::launcher;

namespace {

// Makes hwloc describe a node that does not exist. hwloc numbers its parts from the first CPU on.
class SyntheticMachine {
 public:
  explicit SyntheticMachine(const char* description) { ::setenv("HWLOC_SYNTHETIC", description, 1); }
  ~SyntheticMachine() { ::unsetenv("HWLOC_SYNTHETIC"); }
};

}  // namespace

TEST_CASE("the CPU topology of this node contains exactly the CPUs of this process") {
  const std::vector<int> ours = affinity_cpus();
  const auto topology = read_cpu_topology(ours);
  REQUIRE(topology.ok());
  std::vector<int> numbers;
  for (const CpuPlace& place : topology.value().cpus) numbers.push_back(place.cpu);
  CHECK(numbers == ours);
}

TEST_CASE("sockets, NUMA nodes, caches and cores of a node are distinguished") {
  const SyntheticMachine machine("pack:2 numa:2 l3:2 core:2 pu:2");
  const auto topology = read_cpu_topology({0, 1, 2, 4, 8, 16, 31});
  REQUIRE(topology.ok());
  CHECK(topology.value().cpus == std::vector<CpuPlace>{{0, 0, 0, 0, 0},
                                                       {1, 0, 0, 0, 0},
                                                       {2, 1, 0, 0, 0},
                                                       {4, 2, 1, 0, 0},
                                                       {8, 4, 2, 1, 0},
                                                       {16, 8, 4, 2, 1},
                                                       {31, 15, 7, 3, 1}});
}

TEST_CASE("CPUs of a NUMA node without a shared cache form one group") {
  const SyntheticMachine machine("numa:2 core:2 pu:1");
  const auto topology = read_cpu_topology({0, 3});
  REQUIRE(topology.ok());
  CHECK(topology.value().cpus[0].cache == 0);
  CHECK(topology.value().cpus[1].cache == 1);
}

TEST_CASE("CPUs that hwloc does not know are an error") {
  CHECK_FALSE(read_cpu_topology({1 << 20}).ok());
}

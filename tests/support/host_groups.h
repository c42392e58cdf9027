// The ranks of one machine, met, as objects of this process.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/peers/host_group.h"
#include "support/deadline.h"

namespace ddp::test {

using namespace internal;

// `machine_of`: those with the same name are on one machine.
inline std::vector<std::shared_ptr<HostGroup>> meet_on_hosts(int size,
                                                             const std::function<std::string(int rank)>& machine_of,
                                                             StatusPage page = {}) {
  const auto store = make_memory_store(kPatience);
  std::vector<std::shared_ptr<HostGroup>> groups(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const Meeting meeting{rank, size, kPatience, machine_of(rank), {}, {}, page};
      groups[static_cast<std::size_t>(rank)] = HostGroup::meet(meeting, *store);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return groups;
}

inline std::vector<std::shared_ptr<HostGroup>> meet_on_one_host(int size) {
  return meet_on_hosts(size, [](int) { return ""; });
}

}  // namespace ddp::test

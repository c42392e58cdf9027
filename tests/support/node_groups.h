// Makes node groups, whose ranks have met, as objects of this process.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/peers/node_group.h"
#include "support/deadline.h"

namespace ddp::test {

using namespace internal;

// Ranks for which `node_of` returns the same name are on one node.
inline std::vector<std::shared_ptr<NodeGroup>> meet_on_nodes(int size,
                                                             const std::function<std::string(int rank)>& node_of,
                                                             StatusPage page = {}) {
  const auto store = make_memory_store(kPatience);
  std::vector<std::shared_ptr<NodeGroup>> groups(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const Meeting meeting{rank, size, kPatience, node_of(rank), {}, {}, page};
      groups[static_cast<std::size_t>(rank)] = NodeGroup::meet(meeting, *store);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return groups;
}

inline std::vector<std::shared_ptr<NodeGroup>> meet_on_one_node(int size) {
  return meet_on_nodes(size, [](int) { return ""; });
}

}  // namespace ddp::test

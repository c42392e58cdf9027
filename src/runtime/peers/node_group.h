// A NodeGroup holds the ranks of a process group that run on this node, and the data that they publish to each other.
#pragma once

#include <ddp/store.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/peers/node_area.h"
#include "runtime/peers/node_links.h"
#include "runtime/peers/shared_memory.h"
#include "runtime/progress/status_page.h"

namespace ddp::internal {

// Segments holds memory that a rank allocates for its own data, and that the other ranks of its node can read and write
// in place. It is thread-safe, except at(), which belongs to the one thread that runs a collective.
class Segments : public std::enable_shared_from_this<Segments> {
 public:
  // `ranks` holds the ranks of the peers, for messages.
  Segments(std::shared_ptr<const NodeLinks> links, std::vector<int> ranks, std::size_t own)
      : links_(std::move(links)), ranks_(std::move(ranks)), own_(own) {}

  // Returns zeroed memory that is shared with all peers. They receive it before any other message can refer to it.
  // Throws `unavailable`.
  std::shared_ptr<void> allocate(std::size_t bytes);

  // Describes where memory of this rank lies in its segments. `number` is 0 if it lies in none.
  struct Place {
    std::uint32_t number = 0;
    std::uint64_t offset = 0;
  };
  Place place_of(const void* data, std::size_t bytes) const;

  // Returns the same memory as this process sees it. Throws `peer_lost` if the peer has not sent the segment, and
  // `internal` if the range is not in it.
  std::byte* at(std::size_t peer, const Place& place, std::size_t bytes);

 private:
  void forget(std::uint32_t number);
  void take(std::size_t peer, NodeMessage message);

  const std::shared_ptr<const NodeLinks> links_;
  const std::vector<int> ranks_;
  const std::size_t own_;
  mutable std::mutex mutex_;
  std::uint32_t last_number_ = 0;
  std::map<std::uint32_t, std::shared_ptr<SharedMemory>> mine_;
  std::map<std::pair<std::size_t, std::uint32_t>, std::shared_ptr<SharedMemory>> theirs_;
};

// Describes how the ranks of a group find each other.
struct Meeting {
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout{0};      // limit for the links and areas
  std::string node_name = {};                // ranks with equal names are on one node; detected if empty
  std::function<void()> check_members = {};  // called while waiting; throws if a rank is known to be gone
  // Ranks wait this long for the others. If it is not set, they wait as long as the store waits for keys.
  std::optional<std::chrono::milliseconds> patience = {};
  StatusPage page = {};  // shows the waiting, and the data that are passed on later
};

// Ranks have two numbers here: `index` among the ranks of this node, and `rank` in the group.
class NodeGroup {
 public:
  // Finds the other ranks through the group's store; all ranks of the group call it. Ranks that claim to be on one node
  // prove it: each maps every other's area. Throws the same errors as NodeLinks, and `unavailable` if there is no
  // shared memory.
  static std::shared_ptr<NodeGroup> meet(const Meeting& meeting, Store& store);

  // Returns why ranks cannot share memory here, or an empty string if they can.
  static std::string obstacle();

  ~NodeGroup();
  NodeGroup(const NodeGroup&) = delete;
  NodeGroup& operator=(const NodeGroup&) = delete;

  std::size_t size() const { return ranks_.size(); }
  std::size_t own() const { return own_; }
  int rank_of(std::size_t index) const { return ranks_[index]; }
  const std::vector<int>& ranks() const { return ranks_; }
  // Returns size() if the rank is on another node.
  std::size_t index_of(int rank) const {
    return static_cast<std::size_t>(std::find(ranks_.begin(), ranks_.end(), rank) - ranks_.begin());
  }
  bool holds(int rank) const { return index_of(rank) < size(); }
  // Returns whether all ranks of the group are on this node.
  bool holds_all() const { return static_cast<int>(size()) == group_size_; }
  int group_size() const { return group_size_; }
  // Returns the index of each rank's node, by rank. Nodes are numbered in the order of their first rank.
  const std::vector<int>& nodes() const { return nodes_; }

  NodeArea& area(std::size_t index) const { return *reinterpret_cast<NodeArea*>(memories_[index]->data()); }
  NodeArea& own_area() const { return area(own_); }
  // Returns one of the four staging buffers, each of which has area().stage_bytes.
  std::byte* stage(std::size_t index, std::size_t number) const;
  NodeChannel& channel(std::size_t from, std::size_t to) const;
  std::byte* channel_buffer(std::size_t from, std::size_t to) const;

  // Returns whether the ranks of this node may run on as many processors as there are ranks. Every rank gets the same
  // result.
  bool has_processor_each() const;
  // Returns whether all ranks of this node are threads of this process.
  bool one_process() const;
  // Returns whether the rank has left, failed or died. Needs a system call if the rank seems to work.
  bool gone(std::size_t index) const { return area(index).state != RankState::working || links_->gone(index); }
  // Returns whether the rank has left or died.
  bool ended(std::size_t index) const { return area(index).state == RankState::left || links_->gone(index); }
  // Returns whether the rank has completed every collective that this rank has called.
  bool has_done_all(std::size_t index) const;
  // Returns whether the rank has completed its recv for every send to it that this rank has called.
  bool has_taken_all(std::size_t index) const;
  // Returns whether the rank has completed its send for every recv from it that this rank has called.
  bool has_given_all(std::size_t index) const;
  void say_failed() const { own_area().state = RankState::failed; }
  // Tells the other ranks that this rank has left in order, unless it has failed. The destructor does the same.
  void say_left() const;

  // Sets a counter of this rank, wakes the threads that wait for it, and counts on the status page that data were
  // passed on.
  void raise(SharedCounter& counter, std::uint32_t value) const;

  Segments& segments() const { return *segments_; }
  StatusPage page() const { return page_; }

 private:
  NodeGroup() = default;
  void make_area(std::uint64_t nonce);
  void map_areas(const std::vector<std::uint64_t>& nonces, std::chrono::milliseconds timeout);

  int group_size_ = 1;
  std::vector<int> ranks_;
  std::vector<int> nodes_;
  std::vector<int> pids_;
  std::size_t own_ = 0;
  std::vector<std::shared_ptr<SharedMemory>> memories_;  // by index
  std::shared_ptr<const NodeLinks> links_;
  std::shared_ptr<Segments> segments_;
  StatusPage page_;
};

}  // namespace ddp::internal

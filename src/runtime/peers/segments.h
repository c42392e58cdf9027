// Segments holds memory that a rank allocates for its own data, and that the other ranks of its node can read and write
// in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/peers/node_links.h"
#include "runtime/peers/shared_memory.h"

namespace ddp::internal {

// The class is thread-safe, except at(), which belongs to the one thread that runs a collective.
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

}  // namespace ddp::internal

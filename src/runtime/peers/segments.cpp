#include "runtime/peers/segments.h"

#include <ddp/error.h>

#include "runtime/limits.h"

namespace ddp::internal {

std::shared_ptr<void> Segments::allocate(std::size_t bytes) {
  auto memory = SharedMemory::create(bytes);
  std::uint32_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = ++last_number_;
  }
  bool all_have_it = true;
  for (std::size_t peer = 0; peer < ranks_.size(); ++peer) {
    if (peer != own_) all_have_it = links_->send(peer, number, memory->fd()) && all_have_it;
  }
  memory->close_fd();
  // If a peer does not have it, it is used like ordinary memory.
  if (all_have_it) {
    const std::lock_guard lock(mutex_);
    mine_[number] = memory;
  }
  void* data = memory->data();
  return {data, [memory = std::move(memory), number, segments = weak_from_this()](void*) {
            if (const auto alive = segments.lock()) alive->forget(number);
          }};
}

void Segments::forget(std::uint32_t number) {
  {
    const std::lock_guard lock(mutex_);
    if (mine_.erase(number) == 0) return;
  }
  for (std::size_t peer = 0; peer < ranks_.size(); ++peer) {
    if (peer != own_) links_->send(peer, number, -1);
  }
}

Segments::Place Segments::place_of(const void* data, std::size_t bytes) const {
  const auto* first = static_cast<const std::byte*>(data);
  const std::lock_guard lock(mutex_);
  for (const auto& [number, memory] : mine_) {
    if (first >= memory->data() && first + bytes <= memory->data() + memory->size()) {
      return {number, static_cast<std::uint64_t>(first - memory->data())};
    }
  }
  return {};
}

void Segments::take(std::size_t peer, NodeMessage message) {
  if (message.memory) {
    theirs_[{peer, message.number}] = SharedMemory::open(std::move(message.memory));
  } else {
    theirs_.erase({peer, message.number});
  }
}

std::byte* Segments::at(std::size_t peer, const Place& place, std::size_t bytes) {
  auto found = theirs_.find({peer, place.number});
  while (found == theirs_.end()) {
    auto message = links_->receive(peer, limits::kSegmentWait);
    if (!message) {
      throw Error(ErrorKind::peer_lost,
                  "rank " + std::to_string(ranks_[peer]) + " has exited or left the group while it shared memory",
                  ranks_[peer]);
    }
    take(peer, std::move(*message));
    found = theirs_.find({peer, place.number});
  }
  const SharedMemory& memory = *found->second;
  if (place.offset > memory.size() || bytes > memory.size() - place.offset) {
    throw Error(ErrorKind::internal, "a rank of this node named memory that it does not share");
  }
  return memory.data() + place.offset;
}

}  // namespace ddp::internal

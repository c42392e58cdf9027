// Ranks of one node find each other in these steps:
//
//   1. Each rank puts "node, socket name, nonce" into the store.
//   2. Ranks with the same node connect to each other (NodeLinks).
//   3. Each rank sends the descriptor of its area to every other rank of the node.
//   4. Each rank maps the areas and compares the nonces.
//
// Two containers on one computer may have the same boot id but no way to reach each other. So the node's name also
// holds the network namespace, to which the sockets belong.
#include "runtime/peers/node_group.h"

#include <ddp/error.h>

#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <new>
#include <thread>

#include "base/file.h"
#include "base/random.h"
#include "base/text.h"
#include "runtime/limits.h"
#include "runtime/peers/wait_for_ranks.h"

namespace ddp::internal {
namespace {

std::string find_node() {
  const std::string boot_id = base::split(base::read_file("/proc/sys/kernel/random/boot_id"), '\n').front();
  struct stat network {};
  ::stat("/proc/self/ns/net", &network);
  return boot_id + "/" + std::to_string(network.st_ino) + "/" + std::to_string(::geteuid());
}

struct Entry {
  std::string node;
  std::string socket;
  std::uint64_t nonce = 0;
};

std::string encode(const Entry& entry) {
  return entry.node + "\n" + entry.socket + "\n" + std::to_string(entry.nonce);
}

Entry decode(const std::string& text) {
  const std::vector<std::string> parts = base::split(text, '\n');
  if (parts.size() != 3) throw Error(ErrorKind::mismatch, "a rank described its node in an unknown format");
  return {parts[0], parts[1], std::strtoull(parts[2].c_str(), nullptr, 10)};
}

std::vector<Entry> exchange(Store& store, const Meeting& meeting, const Entry& own) {
  store.set("host/" + std::to_string(meeting.rank), encode(own));
  const std::vector<std::string> keys = keys_of_ranks("host", meeting.size);
  wait_for_ranks(store, keys, meeting.patience.value_or(store.timeout()), meeting.page, meeting.check_members);
  std::vector<Entry> entries;
  for (const std::string& text : store.multi_get(keys)) entries.push_back(decode(text));
  return entries;
}

std::size_t channels_offset() {
  return (sizeof(NodeArea) + 63) / 64 * 64;
}

std::size_t channel_bytes(std::size_t ranks) {
  const std::size_t share = limits::kNodeChannelsBytes / ranks / 128 * 128;
  return std::clamp(share, limits::kNodeChannelLeast, limits::kNodeChannelMost);
}

}  // namespace

std::string NodeGroup::obstacle() {
  try {
    SharedMemory::create(1);
    const NodeListener listener;
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::shared_ptr<NodeGroup> NodeGroup::meet(const Meeting& meeting, Store& store) {
  const NodeListener listener;
  const Entry own{meeting.node_name.empty() ? find_node() : meeting.node_name, listener.name(), base::random64()};
  const std::vector<Entry> entries = exchange(store, meeting, own);
  std::shared_ptr<NodeGroup> group(new NodeGroup);
  group->group_size_ = meeting.size;
  group->page_ = meeting.page;
  std::vector<std::string> nodes;
  std::vector<std::string> sockets;
  std::vector<std::uint64_t> nonces;
  for (int rank = 0; rank < meeting.size; ++rank) {
    const Entry& entry = entries[static_cast<std::size_t>(rank)];
    const auto known = std::find(nodes.begin(), nodes.end(), entry.node);
    group->nodes_.push_back(static_cast<int>(known - nodes.begin()));
    if (known == nodes.end()) nodes.push_back(entry.node);
    if (entry.node != own.node) continue;
    if (rank == meeting.rank) group->own_ = group->ranks_.size();
    group->ranks_.push_back(rank);
    sockets.push_back(entry.socket);
    nonces.push_back(entry.nonce);
  }
  group->make_area(own.nonce);
  group->links_ = std::make_shared<NodeLinks>(listener, sockets, group->own_, meeting.timeout);
  for (std::size_t index = 0; index < group->size(); ++index) {
    group->pids_.push_back(index == group->own_ ? ::getpid() : group->links_->pid(index));
  }
  group->map_areas(nonces, meeting.timeout);
  group->segments_ = std::make_shared<Segments>(group->links_, group->ranks_, group->own_);
  return group;
}

void NodeGroup::make_area(std::uint64_t nonce) {
  const std::size_t channels = size() * (sizeof(NodeChannel) + channel_bytes(size()));
  const std::size_t bytes = channels_offset() + channels + 4 * limits::kNodeStageBytes;
  memories_.resize(size());
  memories_[own_] = SharedMemory::create(bytes);
  auto* area = new (memories_[own_]->data()) NodeArea;
  area->nonce = nonce;
  area->stage_bytes = limits::kNodeStageBytes;
  area->channel_bytes = channel_bytes(size());
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) {
    for (std::size_t i = 0; i < CPU_SETSIZE; ++i) {
      if (CPU_ISSET(i, &set)) area->processors[i / 64] |= std::uint64_t{1} << i % 64;
    }
  }
  for (std::size_t to = 0; to < size(); ++to) new (&channel(own_, to)) NodeChannel;
}

void NodeGroup::map_areas(const std::vector<std::uint64_t>& nonces, std::chrono::milliseconds timeout) {
  // The kernel limits the descriptors that one user's processes have sent and not received yet (ETOOMANYREFS). So each
  // rank receives one before it sends the next one, and there are never more of them than ranks. Other jobs of the user
  // count, too. A peer that is gone is reported when its message does not come.
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (std::size_t step = 1; step < size(); ++step) {
    while (!links_->send((own_ + step) % size(), 0, memories_[own_]->fd()) && errno == ETOOMANYREFS &&
           std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const std::size_t peer = (own_ + size() - step) % size();
    auto message = links_->receive(peer, timeout);
    if (!message || !message->memory) {
      throw Error(ErrorKind::peer_lost, "rank " + std::to_string(rank_of(peer)) + " left while the ranks connected",
                  rank_of(peer));
    }
    memories_[peer] = SharedMemory::open(std::move(message->memory));
    const NodeArea& area = this->area(peer);
    if (memories_[peer]->size() != memories_[own_]->size() || area.magic != kNodeAreaMagic ||
        area.version != kNodeAreaVersion || area.nonce != nonces[peer]) {
      throw Error(ErrorKind::mismatch,
                  "rank " + std::to_string(rank_of(peer)) + " runs another version of ddplaunch's runtime",
                  rank_of(peer));
    }
  }
  memories_[own_]->close_fd();
}

NodeGroup::~NodeGroup() {
  if (own_ < memories_.size() && memories_[own_]) say_left();
}

void NodeGroup::say_left() const {
  RankState working = RankState::working;
  own_area().state.compare_exchange_strong(working, RankState::left);
}

void NodeGroup::raise(SharedCounter& counter, std::uint32_t value) const {
  counter.value.store(value, std::memory_order_seq_cst);
  if (counter.sleepers.load(std::memory_order_seq_cst) > 0) futex_wake_all(counter.value);
  page_.count_handed_on();
}

std::byte* NodeGroup::stage(std::size_t index, std::size_t number) const {
  const std::size_t end = memories_[index]->size();
  return memories_[index]->data() + end - (4 - number) * limits::kNodeStageBytes;
}

NodeChannel& NodeGroup::channel(std::size_t from, std::size_t to) const {
  return *reinterpret_cast<NodeChannel*>(memories_[from]->data() + channels_offset() + to * sizeof(NodeChannel));
}

std::byte* NodeGroup::channel_buffer(std::size_t from, std::size_t to) const {
  return memories_[from]->data() + channels_offset() + size() * sizeof(NodeChannel) + to * area(from).channel_bytes;
}

bool NodeGroup::has_processor_each() const {
  std::size_t count = 0;
  for (std::size_t word = 0; word < own_area().processors.size(); ++word) {
    std::uint64_t any = 0;
    for (std::size_t index = 0; index < size(); ++index) any |= area(index).processors[word];
    count += static_cast<std::size_t>(std::popcount(any));
  }
  return size() <= count;
}

bool NodeGroup::one_process() const {
  return std::all_of(pids_.begin(), pids_.end(), [&](int pid) { return pid == pids_[own_]; });
}

bool NodeGroup::has_done_all(std::size_t index) const {
  const std::uint64_t called = own_area().shown;
  return called > 0 && area(index).done >= called;
}

bool NodeGroup::has_taken_all(std::size_t index) const {
  const NodeChannel& to = channel(own_, index);
  return to.sends.called > 0 && to.receives.done >= to.sends.called;
}

bool NodeGroup::has_given_all(std::size_t index) const {
  const NodeChannel& from = channel(index, own_);
  return from.receives.called > 0 && from.sends.done >= from.receives.called;
}

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

// Each collective takes one of three paths. All ranks take the same path, because they decide by values that all ranks
// see:
//
//   eager   Small collectives take it. Data go into the staging buffer before the ranks arrive for the first time. The
//           other ranks need nothing else of this rank, so begin() does it. A rank whose data all ranks have mapped
//           does not copy them, except the smallest ones, and the near path follows (near_memory.h).
//   near    All ranks have mapped the data of every rank that gives data. One round reports where the data are, and one
//           reports that they have been read. A reduction is divided: each rank reduces its part of all buffers, into
//           all of them.
//   staged  Data move piece by piece through the staging buffers, with one round per piece (staged.h).
//
// The backend does not let the kernel copy memory between processes (process_vm_readv), because staging takes half as
// long, from 128 KiB to 100 MiB (docs/development/benchmarks.md).
#include <ddp/error.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>

#include "base/check.h"
#include "runtime/backend/backend_errors.h"
#include "runtime/backend/backends.h"
#include "runtime/backend/cpu/near_memory.h"
#include "runtime/backend/cpu/rounds.h"
#include "runtime/backend/cpu/staged.h"
#include "runtime/call/transfer_plan.h"
#include "runtime/peers/mismatch_check.h"
#include "runtime/reduction/reduction.h"

namespace ddp::internal {
namespace {

// A channel carries send and recv between two ranks of one node, through a buffer of two halves.
//
// `filled` counts the halves that the sender has filled, `emptied` counts the halves that the receiver has emptied. A
// message takes at least one half, so that both ranks see each other's size. The sender may be two halves ahead.
//
// Only one thread at a time may call run() for a given peer and direction.
class Channels {
 public:
  Channels(std::shared_ptr<NodeGroup> node, const std::atomic<bool>& aborted)
      : node_(std::move(node)), wait_(node_, aborted) {}

  void run(const Call& call) {
    const std::size_t peer = node_->index_of(call.peer);
    call.operation == Operation::send ? send(call, peer) : receive(call, peer);
  }

 private:
  void send(const Call& call, std::size_t to) {
    NodeChannel& channel = node_->channel(node_->own(), to);
    std::byte* buffer = node_->channel_buffer(node_->own(), to);
    const std::size_t half = node_->own_area().channel_bytes / 2;
    const auto deadline = std::chrono::steady_clock::now() + call.timeout;
    std::uint32_t filled = channel.filled.value;
    const std::size_t bytes = call.input.bytes();
    std::size_t done = 0;
    do {
      wait_.until(channel.emptied, filled - 1, to, call, deadline);
      const std::size_t piece = std::min(half, bytes - done);
      NodeChannel::Message& message = channel.messages[filled % 2];
      message.bytes = bytes;
      message.type = static_cast<std::uint32_t>(call.input.type);
      if (piece > 0) {
        std::memcpy(buffer + filled % 2 * half, static_cast<const std::byte*>(call.input.data) + done, piece);
      }
      done += piece;
      node_->raise(channel.filled, ++filled);
    } while (done < bytes);
  }

  void receive(const Call& call, std::size_t from) {
    NodeChannel& channel = node_->channel(from, node_->own());
    const std::byte* buffer = node_->channel_buffer(from, node_->own());
    const std::size_t half = node_->area(from).channel_bytes / 2;
    const auto deadline = std::chrono::steady_clock::now() + call.timeout;
    std::uint32_t emptied = channel.emptied.value;
    const std::size_t bytes = call.output.bytes();
    std::size_t done = 0;
    do {
      wait_.until(channel.filled, emptied + 1, from, call, deadline);
      const NodeChannel::Message message = channel.messages[emptied % 2];
      const auto type = static_cast<DataType>(message.type);
      if (message.bytes != bytes || type != call.output.type) {
        const std::string sent = describe(ConstBuffer(nullptr, message.bytes / size_of(type), type));
        throw sent_data_error(call.peer, sent, describe(call.output));
      }
      const std::size_t piece = std::min(half, bytes - done);
      if (piece > 0) std::memcpy(static_cast<std::byte*>(call.output.data) + done, buffer + emptied % 2 * half, piece);
      done += piece;
      node_->raise(channel.emptied, ++emptied);
    } while (done < bytes);
  }

  const std::shared_ptr<NodeGroup> node_;
  const NodeWait wait_;
};

bool is_reduction(const Call& call) {
  return call.operation == Operation::all_reduce || call.operation == Operation::reduce;
}

class CpuBackend : public Backend {
 public:
  CpuBackend(const BackendOptions& options, bool reads_near)
      : node_(options.node_group),
        size_(static_cast<int>(node_->size())),
        own_(static_cast<int>(node_->own())),
        has_processor_each_(node_->has_processor_each()),
        rounds_(node_, aborted_),
        near_(node_, reads_near),
        staged_(node_, rounds_),
        channels_(node_, aborted_) {}

  std::string_view name() const override { return "cpu"; }

  void abort() override {
    aborted_ = true;
    node_->say_failed();
  }

  std::shared_ptr<void> allocate(std::size_t bytes) override {
    return node_->size() == 1 ? Backend::allocate(bytes) : node_->segments().allocate(bytes);
  }

  bool begin(std::span<const Call* const> calls) override {
    const Call& call = *calls.front();
    if (calls.size() > 1 || node_->size() == 1 || is_transfer(call.operation) || !is_eager(call) || shows_near(call))
      return false;
    rounds_.begin(call);
    fill(call);
    rounds_.arrive();
    begun_ = call.sequence;
    return true;
  }

  void run(const Call& call) override {
    if (is_transfer(call.operation)) return channels_.run(call);
    try {
      run_collective(call);
    } catch (...) {
      node_->say_failed();
      near_.await_others();
      throw;
    }
  }

 private:
  void run_collective(const Call& call) {
    if (node_->size() == 1) return run_alone(call);
    if (begun_ != call.sequence) rounds_.begin(call);
    if (is_eager(call)) return run_eager(call);
    staged_.show_sizes(transfer_plan(call));
    rounds_.meet(call);
    compare_calls(*node_, call);
    if (is_reduction(call)) return run_reduction(call);
    const TransferPlan own = transfer_plan(call);
    for (std::size_t index = 0; index < node_->size(); ++index) staged_.require_size(own, index);
    run_transfer_plan(own);
  }

  // Every rank makes the same decision, because it depends only on values in the fingerprint.
  bool is_eager(const Call& call) const {
    const std::size_t most = eager_up_to(call.operation, node_->size());
    return call.operation == Operation::barrier || (most > 0 && staged_bytes(call) <= most);
  }

  // Returns the size that decides the path of the collective (near_memory.h).
  std::size_t staged_bytes(const Call& call) const {
    if (call.operation == Operation::reduce_scatter) return call.input.bytes();
    std::size_t largest = call.operation == Operation::all_gather ? 0 : call.output.bytes();
    for (int other = 0; call.operation == Operation::all_gather && other < size_; ++other) {
      largest = std::max(largest, output_part(call, other, size_).bytes());
    }
    return largest;
  }

  TransferPlan transfer_plan(const Call& call) const { return {call, own_, size_}; }

  // Returns whether other ranks may read this rank's data in place, so that an eager collective does not copy them.
  bool shows_near(const Call& call) const {
    return staged_bytes(call) > copied_up_to(call.operation, has_processor_each_) && is_near(call, node_->own());
  }
  bool is_near(const Call& call, std::size_t rank) const {
    return near_.has(call, [rank](std::size_t index) { return index == rank; });
  }

  SmallPath small_path_of(const Call& call) const {
    if (staged_bytes(call) <= copied_up_to(call.operation, has_processor_each_)) return SmallPath::copied;
    std::size_t givers = 0;
    std::size_t near = 0;
    const TransferPlan plan = transfer_plan(call);
    for (std::size_t index = 0; index < node_->size(); ++index) {
      if (!plan.gives(static_cast<int>(index))) continue;
      ++givers;
      if (is_near(call, index)) ++near;
    }
    return small_path(givers, near);
  }

  // Runs a collective of a group with one rank.
  void run_alone(const Call& call) {
    if (is_reduction(call)) {
      const double factor = factor_of(call.op, 1);
      if (factor != 1) scale(call.output, factor);
      return;
    }
    if (call.operation == Operation::barrier) return;
    const TransferPlan own = transfer_plan(call);
    if (!own.reduces()) return own.keep_own();
    const ReductionSource source{own.given_to(0).data, factor_of(call.op, 1)};
    reduce(call.output.type, call.op, {&source, 1}, {&call.output.data, 1}, call.output.count);
  }

  // Copies everything that this rank gives into the staging buffer of an eager collective, one part after the other.
  void fill(const Call& call) {
    std::byte* stage = rounds_.filling(0);
    if (is_reduction(call)) {
      std::memcpy(stage, call.input.data, call.input.bytes());
      return;
    }
    if (call.operation == Operation::barrier) return;
    const TransferPlan own = transfer_plan(call);
    for (int other = 0; other < size_; ++other) {
      const ConstBuffer given = own.given_to(other);
      if (given.count > 0) std::memcpy(stage, given.data, given.bytes());
      if (own.shared()) return;
      stage += given.bytes();
    }
  }

  void run_eager(const Call& call) {
    if (begun_ != call.sequence) {
      if (!shows_near(call)) fill(call);
      rounds_.arrive();
    }
    rounds_.await(call);
    compare_calls(*node_, call);
    switch (small_path_of(call)) {
      case SmallPath::copied:
        break;
      case SmallPath::near:
        return is_reduction(call) ? run_reduction(call) : run_transfer_plan(transfer_plan(call));
      case SmallPath::copied_late:
        fill(call);
        rounds_.meet(call);
    }
    if (call.operation == Operation::barrier) return;
    if (is_reduction(call)) {
      if (call.operation == Operation::reduce && own_ != call.peer) return;
      return reduce_staged(call, 0, call.output);
    }
    const TransferPlan own = transfer_plan(call);
    // If a rank gives a different part to each rank, this rank's part begins at `offset`.
    std::size_t offset = 0;
    if (!own.shared()) {
      for (int other = 0; other < own_; ++other) offset += own.given_to(other).bytes();
    }
    if (own.reduces()) return reduce_staged(call, offset, call.output);
    for (std::size_t index = 0; index < node_->size(); ++index) {
      const Buffer taken = own.taken_from(static_cast<int>(index));
      if (index == node_->own()) {
        own.keep_own();
      } else if (taken.count > 0) {
        std::memcpy(taken.data, rounds_.filled(index, 0) + offset, taken.bytes());
      }
    }
  }

  // Reduces the data that all ranks have at `offset` of their staging buffers, into `output`.
  void reduce_staged(const Call& call, std::size_t offset, const Buffer& output) {
    sources_.clear();
    for (std::size_t index = 0; index < node_->size(); ++index) {
      sources_.push_back({rounds_.filled(index, 0) + offset, shown_call(*node_, index, call).factor});
    }
    reduce(output.type, call.op, sources_, {&output.data, 1}, output.count);
  }

  void run_transfer_plan(const TransferPlan& own) {
    const Call& call = own.call;
    if (!near_.has(call, [&](std::size_t index) { return own.gives(static_cast<int>(index)); })) {
      return staged_.move(own);
    }
    use_near(own);
    rounds_.meet(call);
  }

  void use_near(const TransferPlan& own) {
    const Call& call = own.call;
    const InPlace in_place(*node_);
    if (own.reduces()) return near_.reduce(call, call.output, part_offset(own, call.output), {&call.output.data, 1});
    for (std::size_t step = 0; step < node_->size(); ++step) {
      const std::size_t index = (node_->own() + step) % node_->size();
      const Buffer taken = own.taken_from(static_cast<int>(index));
      if (index == node_->own()) {
        own.keep_own();
      } else if (taken.count > 0) {
        std::memcpy(taken.data, near_.view(call, index, part_offset(own, taken), taken.bytes()), taken.bytes());
      }
    }
  }

  // Returns where this rank's part begins in the input of a rank that gives a different part to each rank. The parts
  // have equal size.
  std::size_t part_offset(const TransferPlan& own, const Buffer& taken) const {
    return own.shared() ? 0 : static_cast<std::size_t>(own_) * taken.bytes();
  }

  void run_reduction(const Call& call) {
    if (!near_.has(call, [](std::size_t) { return true; })) return staged_.reduce(call);
    reduce_near(call);
    rounds_.meet(call);
  }

  void reduce_near(const Call& call) {
    const InPlace in_place(*node_);
    const Buffer& buffer = call.output;
    const Buffer own = share_of(buffer, node_->own(), node_->size());
    const std::size_t offset =
        static_cast<std::size_t>(static_cast<std::byte*>(own.data) - static_cast<std::byte*>(buffer.data));
    destinations_.clear();
    for (std::size_t index = 0; index < node_->size(); ++index) {
      if (call.operation == Operation::reduce && static_cast<int>(index) != call.peer) continue;
      destinations_.push_back(near_.view(call, index, offset, own.bytes()));
    }
    near_.reduce(call, own, offset, destinations_);
  }

  const std::shared_ptr<NodeGroup> node_;
  // The ranks are numbered by their index on this node. It is the rank in the group if the whole group is on this node.
  const int size_;
  const int own_;
  const bool has_processor_each_;
  std::atomic<bool> aborted_ = false;
  Rounds rounds_;
  NearMemory near_;
  Staged staged_;
  Channels channels_;
  std::uint64_t begun_ = 0;
  // These vectors are kept between calls, so that no call allocates memory.
  std::vector<ReductionSource> sources_;
  std::vector<void*> destinations_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(const BackendOptions& options, std::shared_ptr<Store> store) {
  auto inside = make_inside_backend(options, true);
  return options.node_group->holds_all() ? std::move(inside)
                                         : make_nodes_backend(options, std::move(store), std::move(inside));
}

std::unique_ptr<Backend> make_inside_backend(const BackendOptions& options, bool reads_near) {
  DDP_CHECK(options.node_group != nullptr);
  return std::make_unique<CpuBackend>(options, reads_near);
}

}  // namespace ddp::internal

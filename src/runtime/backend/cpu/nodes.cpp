#include <ddp/error.h>

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/backend/backend_errors.h"
#include "runtime/backend/backends.h"
#include "runtime/peers/mismatch_check.h"
#include "runtime/peers/node_group.h"
#include "runtime/reduction/reduction.h"

namespace ddp::internal {
namespace {

// Returns the number of ranks of each node, in the order of NodeGroup::nodes().
std::vector<std::size_t> ranks_by_node(const std::vector<int>& nodes) {
  std::vector<std::size_t> counts;
  for (const int node : nodes) {
    counts.resize(std::max(counts.size(), static_cast<std::size_t>(node) + 1));
    ++counts[static_cast<std::size_t>(node)];
  }
  return counts;
}

class NodesBackend : public Backend {
 public:
  NodesBackend(const BackendOptions& options, const std::shared_ptr<Store>& store, std::unique_ptr<Backend> inside)
      : node_(options.node_group), inside_(std::move(inside)) {
    const std::vector<std::size_t> counts = ranks_by_node(node_->nodes());
    const bool all_equal = std::all_of(counts.begin(), counts.end(), [&](std::size_t n) { return n == counts[0]; });
    slices_ = all_equal ? node_->size() : 1;
    BackendOptions flat = options;
    flat.node_group = nullptr;  // so that Gloo uses the network
    flat_ = make_gloo_backend(flat, make_prefix_store("all", store));
    if (node_->own() >= slices_) return;
    BackendOptions across = flat;
    across.rank = node_->nodes()[static_cast<std::size_t>(options.rank)];
    across.size = static_cast<int>(counts.size());
    across.stands_for = met_across(counts.size());
    across_ = make_gloo_backend(across, make_prefix_store("slice/" + std::to_string(node_->own()), store));
  }

  std::string_view name() const override { return "cpu"; }

  void abort() override {
    inside_->abort();
    flat_->abort();
    if (across_) across_->abort();
  }

  std::shared_ptr<void> allocate(std::size_t bytes) override { return inside_->allocate(bytes); }

  void run(const Call& call) override { call.operation == Operation::all_reduce ? all_reduce(call) : flat_->run(call); }

 private:
  // Returns the ranks of each node. The first rank in the list is the one that meets this rank.
  std::vector<std::vector<int>> met_across(std::size_t nodes) const {
    std::vector<std::vector<int>> result(nodes);
    for (int rank = 0; rank < node_->group_size(); ++rank) {
      std::vector<int>& ranks = result[static_cast<std::size_t>(node_->nodes()[static_cast<std::size_t>(rank)])];
      ranks.push_back(rank);
      if (ranks.size() == node_->own() + 1) std::swap(ranks.front(), ranks.back());
    }
    return result;
  }

  // If the operation has a factor, the reduction inside the node applies it. Between nodes, the sums are only added.
  void all_reduce(const Call& call) {
    const double factor = factor_of(call.op, node_->group_size());
    const bool sums = call.op.kind == ReduceOp::average || call.op.kind == ReduceOp::premultiplied_sum;
    const ReduceOp inside_op = sums ? ReduceOp::premultiplied(factor) : call.op;
    const ReduceOp across_op = sums ? ReduceOp(ReduceOp::sum) : call.op;
    const Buffer own = slice_of(call.output, node_->own());

    Call step = call;
    step.op = inside_op;
    step.operation = Operation::reduce_scatter;
    step.output = own;
    for (std::size_t index = 0; index < node_->size(); ++index) {
      step.input_parts.push_back(slice_of(call.output, index));
    }
    run_inside(step, 0);

    if (across_ && own.count > 0) {
      Call slice = call;
      slice.op = across_op;
      slice.input = own;
      slice.output = own;
      slice.fingerprint = fingerprint_of(slice, node_->group_size());
      across_->run(slice);
    }

    step.operation = Operation::all_gather;
    step.input = own;
    step.output = {};
    for (const ConstBuffer& part : std::exchange(step.input_parts, {})) {
      step.output_parts.emplace_back(const_cast<void*>(part.data), part.count, part.type);
    }
    run_inside(step, 1);
  }

  // Gives the step a separate number, so that calls inside this node are not confused with the group's calls.
  void run_inside(Call& step, std::uint64_t which) {
    const std::uint64_t number = step.sequence;
    step.sequence = (std::uint64_t{1} << 62) | number << 1 | which;
    step.fingerprint = fingerprint_of(step, static_cast<int>(node_->size()));
    show_call(*node_, step);
    try {
      inside_->run(step);
    } catch (const Error& error) {
      if (which == 0 || error.kind() != ErrorKind::timeout) throw;
      // The peer took part in the first step, so it may be waiting for a rank of another node.
      throw late_behind_nodes_error(error);
    }
    step.sequence = number;
  }

  // Returns the slice of the rank with this index. It is empty if the rank has no connection to the other nodes.
  Buffer slice_of(const Buffer& buffer, std::size_t index) const { return share_of(buffer, index, slices_); }

  const std::shared_ptr<NodeGroup> node_;
  const std::unique_ptr<Backend> inside_;
  std::size_t slices_ = 1;
  std::unique_ptr<Backend> flat_;
  std::unique_ptr<Backend> across_;
};

}  // namespace

std::unique_ptr<Backend> make_nodes_backend(const BackendOptions& options, const std::shared_ptr<Store>& store,
                                            std::unique_ptr<Backend> inside) {
  return std::make_unique<NodesBackend>(options, store, std::move(inside));
}

}  // namespace ddp::internal

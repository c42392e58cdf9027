// ParameterShards determines which elements of the parameters each rank's optimizer updates, and gives all elements to
// all ranks (ZeRO stage 1: Rajbhandari et al., arXiv:1910.02054).
#pragma once

#include <ddp/buffer.h>
#include <ddp/extension/communication_hook.h>
#include <ddp/memory.h>
#include <ddp/parameter_piece.h>
#include <ddp/process_group.h>
#include <ddp/stream.h>

#include <memory>
#include <span>
#include <vector>

#include "runtime/ddp/bucket_plan.h"
#include "runtime/ddp/element_math.h"

namespace ddp::internal {

// Describes the part of an arena's range that belongs to a parameter.
struct RangePiece {
  std::size_t parameter = 0;
  std::size_t first_in_parameter = 0;
  std::size_t first_in_range = 0;
  std::size_t count = 0;

  friend bool operator==(const RangePiece&, const RangePiece&) = default;
};

// Returns the parts of a bucket's parameters that lie within `range` of its type's arena, in the order of the arena.
// Padding belongs to no parameter. The function is pure.
std::vector<RangePiece> pieces_within(const Bucket& bucket, const ArenaRange& range,
                                      std::span<const ParameterSize> parameters, const GradientLayout& layout);

class ParameterShards {
 public:
  // Each rank owns its share (share_of) of every range of every bucket. The plan must not change.
  ParameterShards(const ProcessGroup& group, std::span<const Tensor> parameters, std::span<const Tensor> gradients,
                  std::span<const Bucket> plan, std::span<const ParameterSize> sizes, const GradientLayout& layout);

  const std::vector<ParameterPiece>& owned() const { return owned_; }

  // Gives every rank the values that the other ranks have in the pieces that they own. All ranks call it. `stream` is
  // given for parameters in GPU memory. Then everything happens in its order, and the host does not wait.
  void share(const ElementMath& math, Stream stream);

 private:
  struct Range {
    DataType type = DataType::f32;
    ArenaRange range;
    std::vector<RangePiece> pieces;
  };
  Buffer values_of(const RangePiece& piece) const;
  // Returns the number of a range's elements with padding at its end, so that it consists of equal full shares.
  std::size_t padded_count(const Range& range) const;
  // Returns memory for this many elements. It is the same memory in every call.
  Buffer staging(std::size_t count, DataType type);
  void share_through_staging(const Range& range, const ElementMath& math, const CallOptions& options);

  const ProcessGroup group_;
  const std::span<const Tensor> parameters_;
  std::vector<Range> ranges_;
  std::vector<ParameterPiece> owned_;
  Memory staging_;  // values of one range
};

// Makes the hook that gives each rank the mean of its own share of every range (share_of()), and nothing else.
// Afterwards, the other shares still hold this rank's own gradient. See mean_hook.cpp.
std::shared_ptr<CommunicationHook> make_shard_hook();

}  // namespace ddp::internal

// ParameterShards: which elements of the parameters each rank's optimizer updates, and how all ranks get all of them
// (ZeRO stage 1: Rajbhandari et al., arXiv:1910.02054).
#pragma once

#include <ddp/buffer.h>
#include <ddp/parameter_piece.h>
#include <ddp/process_group.h>

#include <span>
#include <vector>

#include "runtime/ddp/bucket_plan.h"

namespace ddp::internal {

// What of a range of an arena belongs to a parameter.
struct RangePiece {
  std::size_t parameter = 0;
  std::size_t first_in_parameter = 0;
  std::size_t first_in_range = 0;
  std::size_t count = 0;

  friend bool operator==(const RangePiece&, const RangePiece&) = default;
};

// The parts of a bucket's parameters that lie within [first, first + count) of its type's arena, in the order of the
// arena; padding belongs to none. Pure.
std::vector<RangePiece> pieces_within(const Bucket& bucket, const ArenaRange& range,
                                      std::span<const ParameterSize> parameters, const GradientLayout& layout);

class ParameterShards {
 public:
  // Each rank owns its share (share_of) of every range of every bucket. The plan must not change.
  ParameterShards(const ProcessGroup& group, std::span<const Tensor> parameters, std::span<const Tensor> gradients,
                  std::span<const Bucket> plan, std::span<const ParameterSize> sizes, const GradientLayout& layout);

  const std::vector<ParameterPiece>& owned() const { return owned_; }

  // Collective. Every rank gets what the others have in the pieces that they own.
  void share();

 private:
  struct Range {
    DataType type = DataType::f32;
    ArenaRange range;
    std::vector<RangePiece> pieces;
  };
  Buffer values_of(const RangePiece& piece) const;

  const ProcessGroup group_;
  const std::span<const Tensor> parameters_;
  std::vector<Range> ranges_;
  std::vector<ParameterPiece> owned_;
  std::vector<std::byte> staging_;  // of one range
};

}  // namespace ddp::internal

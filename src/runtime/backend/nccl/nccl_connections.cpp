#include "runtime/backend/nccl/nccl_connections.h"

#include <algorithm>
#include <bit>

namespace ddp::internal {
namespace {

// A program with ever new sizes in its groups must not fill the memory. What is forgotten only takes the slower way
// once more.
constexpr std::size_t kMostGroups = 4096;

bool is_transfer(const NcclStep& step) {
  return step.function == NcclFunction::send || step.function == NcclFunction::receive;
}

}  // namespace

std::vector<NcclConnections::Kind> NcclConnections::collectives(std::span<const NcclStep> steps) {
  std::vector<Kind> kinds;
  for (const NcclStep& step : steps) {
    if (is_transfer(step)) continue;
    const auto digits = static_cast<std::size_t>(std::bit_width(step.count));
    kinds.emplace_back(step.function, step.type, step.factor ? NcclOp::premultiplied_sum : step.op, digits);
  }
  std::ranges::sort(kinds);
  return kinds;
}

bool NcclConnections::suffice_for(std::span<const NcclStep> steps) const {
  const auto is_connected = [&](const NcclStep& step) {
    return !is_transfer(step) || transfers_.contains({step.function, step.peer});
  };
  const std::vector<Kind> kinds = collectives(steps);
  return std::ranges::all_of(steps, is_connected) && (kinds.empty() || groups_.contains(kinds));
}

void NcclConnections::add(std::span<const NcclStep> steps) {
  for (const NcclStep& step : steps) {
    if (is_transfer(step)) transfers_.insert({step.function, step.peer});
  }
  if (groups_.size() >= kMostGroups) groups_.clear();
  if (std::vector<Kind> kinds = collectives(steps); !kinds.empty()) groups_.insert(std::move(kinds));
}

}  // namespace ddp::internal

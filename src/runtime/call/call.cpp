#include "runtime/call/call.h"

#include <ddp/data_type.h>
#include <ddp/reduce_op.h>

#include <algorithm>
#include <span>

#include "base/hash.h"
#include "wire/call_names.h"

namespace ddp {

static_assert(wire::kTypeNames.size() == kDataTypes.size());
static_assert(wire::kReductionNames.size() == ReduceOp::premultiplied_sum + 1);

std::string_view to_string(DataType type) {
  return wire::kTypeNames[static_cast<std::size_t>(type)];
}

std::string_view to_string(ReduceOp::Kind kind) {
  return wire::kReductionNames[kind];
}

namespace internal {
namespace {

template <typename Part>
std::vector<std::size_t> counts_of(const std::vector<Part>& parts) {
  std::vector<std::size_t> result;
  for (const Part& part : parts) result.push_back(part.count);
  return result;
}

// Returns the element counts per rank on which all ranks must agree. Returns one number if all counts are equal.
std::vector<std::size_t> common_counts(const Call& call, int size) {
  const auto ranks = static_cast<std::size_t>(size);
  std::vector<std::size_t> counts;
  switch (call.operation) {
    case Operation::all_reduce:
    case Operation::reduce:
    case Operation::broadcast:
      return {call.output.count};
    case Operation::all_gather:
      counts = counts_of(call.output_parts);
      if (counts.empty()) return {call.input.count};
      break;
    case Operation::reduce_scatter:
      counts = counts_of(call.input_parts);
      if (counts.empty()) return {call.input.count / ranks};
      break;
    default:
      return {};
  }
  for (const std::size_t count : counts) {
    if (count != counts[0]) return counts;
  }
  return {counts[0]};
}

}  // namespace

std::string_view to_string(Operation operation) {
  return wire::kOperationNames[static_cast<std::size_t>(operation)];
}

ConstBuffer subject_of(const Call& call) {
  switch (call.operation) {
    case Operation::all_gather:
    case Operation::gather:
    case Operation::send:
    case Operation::all_to_all:
      return call.input;
    default:
      return call.output;
  }
}

ConstBuffer input_part(const Call& call, int rank, int size) {
  const auto index = static_cast<std::size_t>(rank);
  if (!call.input_parts.empty()) return call.input_parts[index];
  const std::size_t count = call.input.count / static_cast<std::size_t>(size);
  return call.input.slice(index * count, count);
}

Buffer output_part(const Call& call, int rank, int size) {
  const auto index = static_cast<std::size_t>(rank);
  if (!call.output_parts.empty()) return call.output_parts[index];
  const std::size_t count = call.output.count / static_cast<std::size_t>(size);
  return call.output.slice(index * count, count);
}

std::size_t full_share(std::size_t count, DataType type, std::size_t shares) {
  const std::size_t line = 64 / size_of(type);
  const std::size_t lines = (count + line - 1) / line;
  return (lines + shares - 1) / shares * line;
}

Share share_of(std::size_t count, DataType type, std::size_t index, std::size_t shares) {
  const std::size_t share = full_share(count, type, shares);
  const std::size_t first = std::min(count, index * share);
  return {first, std::min(share, count - first)};
}

Buffer share_of(const Buffer& buffer, std::size_t index, std::size_t shares) {
  const Share share = share_of(buffer.count, buffer.type, index, shares);
  return buffer.slice(share.first, share.count);
}

std::uint64_t fingerprint_of(const Call& call, int size) {
  base::Fnv1a64 hash;
  const auto add = [&](std::uint64_t value) { hash.update(std::as_bytes(std::span(&value, 1))); };
  add(static_cast<std::uint64_t>(call.operation));
  add(static_cast<std::uint64_t>(subject_of(call).type));
  add(has_reduction(call.operation) ? call.op.kind : 0);
  add(static_cast<std::uint32_t>(call.peer));
  for (const std::size_t count : common_counts(call, size)) add(count);
  hash.update(call.name);
  return hash.value();
}

std::string describe(const ConstBuffer& buffer) {
  return std::string(to_string(buffer.type)) + "[" + std::to_string(buffer.count) + "]";
}

std::string describe(const Call& call) {
  std::string text(to_string(call.operation));
  if (has_reduction(call.operation)) text += " " + std::string(to_string(call.op.kind));
  const std::string peer = std::to_string(call.peer);
  switch (call.operation) {
    case Operation::broadcast:
    case Operation::scatter:
    case Operation::recv:
      text += " from rank " + peer;
      break;
    case Operation::reduce:
    case Operation::gather:
    case Operation::send:
      text += " to rank " + peer;
      break;
    default:
      break;
  }
  text += " #" + std::to_string(call.sequence);
  if (call.operation != Operation::barrier) text += " of " + describe(subject_of(call));
  if (!call.name.empty()) text += " ('" + call.name + "')";
  return text;
}

}  // namespace internal
}  // namespace ddp

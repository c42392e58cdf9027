#include "runtime/backend/nccl/nccl_steps.h"

#include <algorithm>
#include <array>
#include <bit>

#include "runtime/call/transfer_plan.h"
#include "runtime/reduction/ordered.h"

namespace ddp::internal {
namespace {

// A program with ever new sizes in its groups must not fill the memory. What is forgotten only takes the slower way
// once more.
constexpr std::size_t kMostGroups = 4096;

bool is_transfer(const NcclStep& step) {
  return step.function == NcclFunction::send || step.function == NcclFunction::receive;
}

NcclType type_of(DataType type) {
  // The entry of i16 has no meaning, because nccl_can() refuses i16.
  constexpr std::array<NcclType, kDataTypes.size()> kTypes = {
      NcclType::f16, NcclType::bf16, NcclType::f32, NcclType::f64, NcclType::i8,
      NcclType::u8,  NcclType::i32,  NcclType::i64, NcclType::u8,  NcclType::u8};
  return kTypes[static_cast<std::size_t>(type)];
}

NcclOp op_of(ReduceOp op, DataType type) {
  const bool is_bool = type == DataType::boolean;
  switch (op.kind) {
    case ReduceOp::average:
      return NcclOp::average;
    case ReduceOp::product:
      return is_bool ? NcclOp::min : NcclOp::product;
    case ReduceOp::min:
      return NcclOp::min;
    case ReduceOp::max:
      return NcclOp::max;
    default:
      return is_bool ? NcclOp::max : NcclOp::sum;
  }
}

NcclStep reduction(NcclFunction function, const Call& call, const ConstBuffer& send, void* receive, std::size_t count,
                   int peer = -1) {
  NcclStep step{function, send.data, receive, count, type_of(send.type), op_of(call.op, send.type), peer};
  if (call.op.kind == ReduceOp::premultiplied_sum) step.factor = call.op.factor;
  return step;
}

NcclStep transfer_step(NcclFunction function, const void* send, void* receive, std::size_t bytes, int peer = -1) {
  return {function, send, receive, bytes, NcclType::u8, NcclOp::sum, peer};
}

// Returns the steps for everything that this rank gives to and takes from each rank, including itself.
std::vector<NcclStep> exchange(const TransferPlan& plan) {
  std::vector<NcclStep> steps;
  for (int other = 0; other < plan.size; ++other) {
    const ConstBuffer given = plan.given_to(other);
    const Buffer taken = plan.taken_from(other);
    if (given.count > 0) steps.push_back(transfer_step(NcclFunction::send, given.data, nullptr, given.bytes(), other));
    if (taken.count > 0)
      steps.push_back(transfer_step(NcclFunction::receive, nullptr, taken.data, taken.bytes(), other));
  }
  return steps;
}

// Gathers parts of different sizes, rank by rank.
std::vector<NcclStep> gather_parts(const Call& call, int rank) {
  std::vector<NcclStep> steps;
  for (std::size_t root = 0; root < call.output_parts.size(); ++root) {
    const Buffer& part = call.output_parts[root];
    const bool own = static_cast<int>(root) == rank;
    if (part.count == 0) continue;
    steps.push_back(transfer_step(NcclFunction::broadcast, own ? call.input.data : part.data, part.data, part.bytes(),
                                  static_cast<int>(root)));
  }
  return steps;
}

std::vector<NcclStep> scatter_reduced_parts(const Call& call) {
  std::vector<NcclStep> steps;
  for (std::size_t root = 0; root < call.input_parts.size(); ++root) {
    const ConstBuffer& part = call.input_parts[root];
    if (part.count == 0) continue;
    steps.push_back(reduction(NcclFunction::reduce, call, part, call.output.data, part.count, static_cast<int>(root)));
  }
  return steps;
}

std::size_t padded(std::size_t bytes) {
  constexpr std::size_t kAlignment = 256;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

bool is_extreme_of_numbers(const Call& call) {
  return is_floating_point(subject_of(call).type) && (call.op.kind == ReduceOp::min || call.op.kind == ReduceOp::max);
}

}  // namespace

bool nccl_can(const Call& call) {
  if (!has_reduction(call.operation)) return true;
  const DataType type = subject_of(call).type;
  const bool is_bitwise =
      call.op.kind == ReduceOp::bit_and || call.op.kind == ReduceOp::bit_or || call.op.kind == ReduceOp::bit_xor;
  // NCCL's minimum and maximum of floating-point values ignore a NaN, and ReduceOp promises that it stays.
  return type != DataType::i16 && !is_bitwise && !is_extreme_of_numbers(call);
}

bool reduces_in_order(const Call& call) {
  return call.operation == Operation::all_reduce && is_extreme_of_numbers(call);
}

Call call_on_integers(const Call& call, void* integers) {
  Call changed = call;
  changed.output = {integers, call.output.count, ordered_type(call.output.type), call.output.device};
  changed.input = changed.output;
  return changed;
}

std::vector<NcclStep> nccl_steps(const Call& call, int rank, int size, void* token) {
  const Buffer& output = call.output;
  switch (call.operation) {
    case Operation::all_reduce:
      return {reduction(NcclFunction::all_reduce, call, call.input, output.data, output.count)};
    case Operation::reduce:
      return {reduction(NcclFunction::reduce, call, call.input, output.data, output.count, call.peer)};
    case Operation::broadcast:
      return {transfer_step(NcclFunction::broadcast, call.input.data, output.data, output.bytes(), call.peer)};
    case Operation::all_gather:
      if (!call.output_parts.empty()) return gather_parts(call, rank);
      return {transfer_step(NcclFunction::all_gather, call.input.data, output.data, call.input.bytes())};
    case Operation::reduce_scatter:
      if (!call.input_parts.empty()) return scatter_reduced_parts(call);
      return {reduction(NcclFunction::reduce_scatter, call, call.input, output.data, output.count)};
    case Operation::barrier:
      return {{NcclFunction::all_reduce, token, token, 1, NcclType::u8, NcclOp::max}};
    case Operation::send:
      return {transfer_step(NcclFunction::send, call.input.data, nullptr, call.input.bytes(), 1)};
    case Operation::recv:
      return {transfer_step(NcclFunction::receive, nullptr, output.data, output.bytes(), 0)};
    case Operation::gather:
    case Operation::scatter:
    case Operation::all_to_all:
      return exchange({call, rank, size});
  }
  return {};
}

bool touches_host_memory(const Call& call) {
  const auto is_host = [](const auto& buffer) { return buffer.count > 0 && buffer.device == DeviceType::cpu; };
  return is_host(call.input) || is_host(call.output) ||
         std::any_of(call.input_parts.begin(), call.input_parts.end(), is_host) ||
         std::any_of(call.output_parts.begin(), call.output_parts.end(), is_host);
}

std::size_t staging_bytes(const Call& call) {
  std::size_t bytes = padded(call.output.bytes());
  if (call.input_parts.empty()) bytes += padded(call.input.bytes());
  for (const ConstBuffer& part : call.input_parts) bytes += padded(part.bytes());
  for (const Buffer& part : call.output_parts) bytes += padded(part.bytes());
  return bytes;
}

StagedCall stage(const Call& call, int rank, int size, std::byte* base) {
  StagedCall staged;
  staged.call = call;
  const auto place = [&base](auto view) {
    view.data = base;
    view.device = DeviceType::cuda;
    base += padded(view.bytes());
    return view;
  };
  const bool in_place = call.input.data == call.output.data && call.input.count == call.output.count;
  const bool gives = TransferPlan{call, rank, size}.gives(rank);
  const bool takes = (call.operation != Operation::reduce && call.operation != Operation::gather) || call.peer == rank;
  const auto give = [&](const ConstBuffer& from, ConstBuffer& to) {
    to = place(from);
    if (gives && from.count > 0) staged.before.push_back({const_cast<void*>(to.data), from.data, from.bytes()});
  };
  const auto take = [&](const Buffer& to, Buffer& from) {
    from = place(to);
    if (takes && to.count > 0) staged.after.push_back({to.data, from.data, to.bytes()});
  };
  if (call.input_parts.empty()) {
    give(call.input, staged.call.input);
  } else {
    for (std::size_t i = 0; i < call.input_parts.size(); ++i) give(call.input_parts[i], staged.call.input_parts[i]);
  }
  if (in_place) {
    staged.call.output = {const_cast<void*>(staged.call.input.data), call.output.count, call.output.type,
                          DeviceType::cuda};
    if (takes && call.output.count > 0) {
      staged.after.push_back({call.output.data, staged.call.output.data, call.output.bytes()});
    }
  } else {
    take(call.output, staged.call.output);
    for (std::size_t i = 0; i < call.output_parts.size(); ++i) take(call.output_parts[i], staged.call.output_parts[i]);
  }
  return staged;
}

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

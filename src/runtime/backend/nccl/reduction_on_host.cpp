#include "runtime/backend/nccl/reduction_on_host.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/reduction/ordered.h"
#include "runtime/reduction/reduction.h"

namespace ddp::internal {

void ReductionOnHost::run(const Call& call) const {
  if (call.stream) heap.events().finish(call.stream.handle(), call.timeout);
  reduces_in_order(call) ? reduce_in_order(call) : reduce_all(call);
}

// Every rank gathers the data of all ranks and reduces the part that it needs.
void ReductionOnHost::reduce_all(const Call& call) const {
  std::vector<ConstBuffer> inputs = {call.input};
  std::size_t own_bytes = 0;
  std::size_t first = 0;  // offset in bytes of this rank's part
  if (call.operation == Operation::reduce_scatter) {
    inputs.clear();
    for (int other = 0; other < size; ++other) inputs.push_back(input_part(call, other, size));
    for (int other = 0; other < rank; ++other) first += inputs[static_cast<std::size_t>(other)].bytes();
  }
  for (const ConstBuffer& input : inputs) own_bytes += input.bytes();
  std::vector<std::byte> own(own_bytes);
  std::byte* end = own.data();
  for (const ConstBuffer& input : inputs) {
    memory.copy({end, input.count, input.type}, input, {});
    end += input.bytes();
  }
  std::vector<std::byte> all(own_bytes * static_cast<std::size_t>(size));
  Call gather = call;
  gather.operation = Operation::all_gather;
  gather.input_parts.clear();
  gather.input = {own.data(), own.size(), DataType::u8};
  gather.output = {all.data(), all.size(), DataType::u8};
  lane.run(gather);
  if (call.output.count == 0 || (call.operation == Operation::reduce && call.peer != rank)) return;

  std::vector<ReductionSource> sources;
  for (std::size_t from = first; from < all.size(); from += own_bytes) sources.push_back({all.data() + from, 1});
  void* result = own.data();
  reduce(call.output.type, call.op, sources, {&result, 1}, call.output.count);
  memory.copy(call.output, {result, call.output.count, call.output.type}, {});
}

// Without kernels, the host computes the integers. The other ranks need not know.
void ReductionOnHost::reduce_in_order(const Call& call) const {
  std::vector<std::byte> bytes(call.output.bytes());
  const Buffer values{bytes.data(), call.output.count, call.output.type};
  memory.copy(values, call.output, {});
  std::vector<std::int64_t> integers(call.output.count);  // large enough for both types
  Call on_host = call;
  on_host.output = values;
  on_host = call_on_integers(on_host, integers.data());
  to_ordered(values, call.op.kind == ReduceOp::max, on_host.output);
  lane.run(on_host);
  from_ordered(on_host.output, values);
  memory.copy(call.output, values, {});
}

}  // namespace ddp::internal

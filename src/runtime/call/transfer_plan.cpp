#include "runtime/call/transfer_plan.h"

#include <cstring>

namespace ddp::internal {

bool TransferPlan::shared() const {
  return call.operation == Operation::broadcast || call.operation == Operation::all_gather ||
         call.operation == Operation::gather;
}

ConstBuffer TransferPlan::given_to(int other) const {
  switch (call.operation) {
    case Operation::broadcast:
      return rank == call.peer ? call.input : ConstBuffer();
    case Operation::all_gather:
      return call.input;
    case Operation::gather:
      return other == call.peer ? call.input : ConstBuffer();
    case Operation::scatter:
      return rank == call.peer ? input_part(call, other, size) : ConstBuffer();
    case Operation::reduce_scatter:
    case Operation::all_to_all:
      return input_part(call, other, size);
    default:
      return {};
  }
}

Buffer TransferPlan::taken_from(int other) const {
  switch (call.operation) {
    case Operation::broadcast:
    case Operation::scatter:
      return other == call.peer ? call.output : Buffer();
    case Operation::gather:
      return rank == call.peer ? output_part(call, other, size) : Buffer();
    case Operation::all_gather:
    case Operation::all_to_all:
      return output_part(call, other, size);
    case Operation::reduce_scatter:
      return call.output;
    default:
      return {};
  }
}

void TransferPlan::keep_own() const {
  const ConstBuffer given = given_to(rank);
  const Buffer taken = taken_from(rank);
  if (given.count > 0 && given.data != taken.data) std::memmove(taken.data, given.data, given.bytes());
}

}  // namespace ddp::internal

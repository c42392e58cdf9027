// Makes calls as a ProcessGroup makes them, for tests of the layers below. They use the backend's own time-out.
#pragma once

#include "runtime/call/call.h"

namespace ddp::test {

using namespace internal;

inline Call call_of(Operation operation, const ConstBuffer& input, const Buffer& output, int peer = -1) {
  Call call;
  call.operation = operation;
  call.input = input;
  call.output = output;
  call.peer = peer;
  return call;
}

inline Call all_reduce(const Buffer& buffer, ReduceOp op = ReduceOp::sum) {
  Call call = call_of(Operation::all_reduce, buffer, buffer);
  call.op = op;
  return call;
}
inline Call broadcast(const Buffer& buffer, int root) {
  return call_of(Operation::broadcast, buffer, buffer, root);
}
inline Call all_gather(const Buffer& output, const ConstBuffer& input) {
  return call_of(Operation::all_gather, input, output);
}
inline Call barrier() {
  return {};
}

}  // namespace ddp::test

#include <ddp/data_type.h>
#include <ddp/reduce_op.h>

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

}  // namespace ddp

#include <ddp/data_type.h>
#include <ddp/reduce_op.h>

#include <array>

namespace ddp {

std::string_view to_string(DataType type) {
  constexpr std::array<std::string_view, kDataTypes.size()> kNames = {"f16", "bf16", "f32", "f64", "i8",
                                                                      "i16", "i32",  "i64", "u8",  "bool"};
  return kNames[static_cast<std::size_t>(type)];
}

std::string_view to_string(ReduceOp::Kind kind) {
  constexpr std::array<std::string_view, ReduceOp::premultiplied_sum + 1> kNames = {
      "sum", "average", "product", "min", "max", "bit_and", "bit_or", "bit_xor", "premultiplied_sum"};
  return kNames[kind];
}

}  // namespace ddp

#include "libtorch/tensor_view.h"

#include <ddp/error.h>
#include <ddp/libtorch.h>

#include <algorithm>
#include <array>

namespace ddp::libtorch {
namespace {

struct TypeName {
  ::torch::ScalarType theirs;
  DataType ours;
};
constexpr std::array kTypes = {TypeName{::torch::kHalf, DataType::f16},  TypeName{::torch::kBFloat16, DataType::bf16},
                               TypeName{::torch::kFloat, DataType::f32}, TypeName{::torch::kDouble, DataType::f64},
                               TypeName{::torch::kChar, DataType::i8},   TypeName{::torch::kShort, DataType::i16},
                               TypeName{::torch::kInt, DataType::i32},   TypeName{::torch::kLong, DataType::i64},
                               TypeName{::torch::kByte, DataType::u8},   TypeName{::torch::kBool, DataType::boolean}};

}  // namespace

Tensor view_of(const std::string& name, const ::torch::Tensor& tensor) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorKind::invalid_argument, (name.empty() ? "the tensor" : "'" + name + "'") + " " + why);
  };
  if (!tensor.defined()) refuse("is undefined: it has no elements");
  const auto type = std::find_if(kTypes.begin(), kTypes.end(),
                                 [&](const TypeName& entry) { return entry.theirs == tensor.scalar_type(); });
  if (!tensor.device().is_cpu() && !tensor.device().is_cuda()) {
    refuse("is on " + tensor.device().str() + "; this adapter works in host memory and on CUDA devices");
  }
  if (type == kTypes.end()) {
    refuse(std::string("is of type ") + c10::toString(tensor.scalar_type()) + ", which cannot be sent");
  }
  if (!tensor.is_contiguous()) {
    refuse(
        "is not contiguous (a transposed view, or channels_last). Make it contiguous() before, for a module before it "
        "is wrapped");
  }
  return {name,
          {tensor.data_ptr(), static_cast<std::size_t>(tensor.numel()), type->ours,
           tensor.is_cuda() ? DeviceType::cuda : DeviceType::cpu},
          {tensor.sizes().begin(), tensor.sizes().end()}};
}

Buffer buffer_of(const ::torch::Tensor& tensor) {
  return view_of("", tensor).data;
}

}  // namespace ddp::libtorch

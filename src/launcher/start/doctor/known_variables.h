// Lists the variables that NCCL, PyTorch, Gloo and CUDA read, so that a misspelt one can be found. None of them warns
// about a variable that it does not know.
#pragma once

#include <span>
#include <string_view>

namespace ddp::launcher::doctor {

// In alphabetical order.
std::span<const std::string_view> known_variables();

}  // namespace ddp::launcher::doctor

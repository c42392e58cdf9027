// Declares the text of the kernels. CMake makes the source of it from kernels.ptx.
#pragma once

namespace ddp::internal {

extern const char* const kKernelsText;

}  // namespace ddp::internal

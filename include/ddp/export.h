// DDP_EXPORT marks the symbols that libddp_runtime.so exports to programs. All other symbols are hidden.
#pragma once

#if __cplusplus < 202002L
#error "ddp needs C++20: compile with -std=c++20 (CMake: target_compile_features(… cxx_std_20))"
#endif

#define DDP_EXPORT [[gnu::visibility("default")]]

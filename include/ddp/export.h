// DDP_EXPORT: marks what libddp_runtime.so shows to programs; everything else in it is hidden.
#pragma once

#if __cplusplus < 202002L
#error "ddp needs C++20: compile with -std=c++20 (CMake: target_compile_features(… cxx_std_20))"
#endif

#define DDP_EXPORT [[gnu::visibility("default")]]

// Runs one fuzzer: DDP_FUZZ_TARGET is a function of fuzz_targets.h.
#include <cstddef>

#include "fuzz/fuzz_targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ddp::fuzz::DDP_FUZZ_TARGET({data, size});
  return 0;
}

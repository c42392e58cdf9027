#include "support/paths.h"

namespace ddp::test {

std::string bin_directory() {
  return DDP_TEST_BIN_DIR;
}

std::string source_directory() {
  return DDP_TEST_SOURCE_DIR;
}

std::string fake_gpu_directory() {
  return DDP_FAKE_GPU_DIR;
}

}  // namespace ddp::test

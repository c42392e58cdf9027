// Returns the paths of this build and its sources. Only paths.cpp depends on them, so that two clones share the other
// files in a compiler cache.
#pragma once

#include <string>

namespace ddp::test {

// Returns the directory of the programs.
std::string bin_directory();
// Returns the directory of the repository.
std::string source_directory();
// Returns the directory of the fake NVIDIA driver and NCCL (tests/support/fake_gpu).
std::string fake_gpu_directory();

}  // namespace ddp::test

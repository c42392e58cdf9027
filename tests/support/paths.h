// Where this build and its sources lie. Only paths.cpp depends on it, so that two clones share the rest in a compiler
// cache.
#pragma once

#include <string>

namespace ddp::test {

// Of the programs.
std::string bin_directory();
// Of the repository.
std::string source_directory();
// Of the stand-ins for the NVIDIA driver and NCCL: tests/support/fake_gpu.
std::string fake_gpu_directory();

}  // namespace ddp::test

// Defines the backends that work on every computer. Tests of collectives run on each of them.
#pragma once

#include <string>
#include <vector>

#include "runtime/backend/backends.h"
#include "runtime/group/group_core.h"
#include "support/gpu_libraries.h"

namespace ddp::test {

using namespace internal;

struct BackendUnderTest {
  std::string name;
  BackendFactory make;
  int thorough_ranks = 8;  // with more ranks, some tests leave out most of their cases
  bool few_types = false;  // only f32 and bf16 are tested with all counts

  bool is_thorough_with(DataType type) const { return !few_types || type == DataType::f32 || type == DataType::bf16; }
};

// Memory that all ranks map is read in place, or staged like all other memory.
inline BackendUnderTest cpu_backend(bool reads_near) {
  return {reads_near ? "cpu, memory read where it lies" : "cpu, memory staged",
          [reads_near](const BackendOptions& options, const std::shared_ptr<Store>&) {
            return make_inside_backend(options, reads_near);
          }};
}
inline BackendUnderTest cpu_near() {
  return cpu_backend(true);
}
inline BackendUnderTest cpu_staged() {
  return cpu_backend(false);
}

// This backend is for ranks on several nodes.
inline BackendUnderTest cpu_between_nodes() {
  return {"cpu between nodes", make_cpu_backend};
}

// Each step over TCP takes long if there are more ranks than processors.
inline BackendUnderTest gloo_backend() {
  return {"gloo", make_gloo_backend, 3};
}

// Each operation wakes several threads. On a busy computer a thorough test of many ranks takes minutes.
inline BackendUnderTest nccl_backend() {
  return {"nccl",
          [](const BackendOptions& options, const std::shared_ptr<Store>& store) -> std::unique_ptr<Backend> {
            return std::make_unique<NcclBackend>(options, store, gpu_libraries());
          },
          2, true};
}

inline std::vector<BackendUnderTest> backends_under_test() {
  return {cpu_near(), cpu_staged(), gloo_backend(), nccl_backend()};
}

}  // namespace ddp::test

// The backends that work on every machine; tests of collectives run over each.
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
  int thorough_ranks = 8;  // with more, some tests leave out most of their cases
  bool few_types = false;  // are tested with all counts

  bool is_thorough_with(DataType type) const { return !few_types || type == DataType::f32 || type == DataType::bf16; }
};

// Memory that all ranks map is read where it lies, or staged as all other.
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

// For ranks that are on several nodes.
inline BackendUnderTest cpu_between_nodes() {
  return {"cpu between nodes", make_cpu_backend};
}

// Over TCP each step takes long when there are more ranks than processors.
inline BackendUnderTest gloo_backend() {
  return {"gloo", make_gloo_backend, 3};
}

// Each of its operations wakes several threads: on a busy machine a thorough test of many ranks takes minutes.
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

// The backends that work on every machine; tests of collectives run over each.
#pragma once

#include <string>
#include <vector>

#include "runtime/backend/gloo/gloo_backend.h"
#include "runtime/group/group_core.h"

namespace ddp::test {

struct BackendUnderTest {
  std::string name;
  BackendFactory make;
  int thorough_ranks = 8;  // with more, some tests leave out their larger cases
};

inline std::vector<BackendUnderTest> backends_under_test() {
  return {{"gloo", make_gloo_backend, 4}};
}

}  // namespace ddp::test

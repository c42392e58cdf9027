// Compares whole texts with a file under tests/golden. With DDP_UPDATE_GOLDEN=1 it writes the files instead.
#pragma once

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "support/catch.h"
#include "support/paths.h"

inline void check_golden(const std::string& name, const std::string& text) {
  const std::string path = ddp::test::source_directory() + "/tests/golden/" + name;
  if (std::getenv("DDP_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
  std::ifstream file(path);
  std::ostringstream expected;
  expected << file.rdbuf();
  CAPTURE(name);
  CHECK(text == expected.str());
}

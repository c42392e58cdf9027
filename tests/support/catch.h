// Includes Catch2 3 if it is installed, else Catch2 2. The tests use the names of version 2, which are defined here.
#pragma once

#if __has_include(<catch2/catch_test_macros.hpp>)

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <string>

namespace Catch {

using Matchers::EndsWith;
using Matchers::Matches;
using Matchers::StartsWith;

inline Matchers::StringContainsMatcher Contains(const std::string& text) {
  return Matchers::ContainsSubstring(text);
}

}  // namespace Catch

using Catch::Approx;

#else

#include <catch2/catch.hpp>

#endif

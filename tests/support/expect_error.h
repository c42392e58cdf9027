// expect_error: the deed throws a ddp::Error of this kind whose message holds all these words.
#pragma once

#include <ddp/error.h>

#include <string>
#include <utility>
#include <vector>

#include "support/catch.h"

namespace ddp::test {

template <typename Deed>
void expect_error(ErrorKind kind, const std::vector<std::string>& words, Deed&& deed) {
  try {
    std::forward<Deed>(deed)();
  } catch (const Error& error) {
    CHECK(to_string(error.kind()) == to_string(kind));
    for (const std::string& word : words) CHECK_THAT(error.what(), Catch::Contains(word));
    return;
  }
  FAIL_CHECK("nothing was thrown; expected " << to_string(kind));
}

}  // namespace ddp::test

// expect_error requires that the call throws a ddp::Error of this kind whose message has all these words. Any thread
// may call it if no other thread uses Catch2 meanwhile, because Catch2 takes one assertion at a time.
#pragma once

#include <ddp/error.h>

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.h"

namespace ddp::test {

inline std::mutex checking;

template <typename Action>
void expect_error(ErrorKind kind, const std::vector<std::string>& words, Action&& action) {
  try {
    std::forward<Action>(action)();
  } catch (const Error& error) {
    const std::lock_guard one_at_a_time(checking);
    CHECK(to_string(error.kind()) == to_string(kind));
    for (const std::string& word : words) CHECK_THAT(error.what(), Catch::Contains(word));
    return;
  }
  const std::lock_guard one_at_a_time(checking);
  FAIL_CHECK("nothing was thrown; expected " << to_string(kind));
}

}  // namespace ddp::test

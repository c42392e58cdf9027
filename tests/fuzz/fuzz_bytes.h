// Reads decisions from the front of an input. Returns zeroes when the input is used up.
#pragma once

#include <algorithm>
#include <string_view>

#include "fuzz/fuzz_targets.h"

namespace ddp::fuzz {

class FuzzBytes {
 public:
  explicit FuzzBytes(Input input) : rest_(input) {}

  bool empty() const { return rest_.empty(); }

  std::uint8_t byte() {
    if (rest_.empty()) return 0;
    const std::uint8_t value = rest_.front();
    rest_ = rest_.subspan(1);
    return value;
  }

  std::string_view text(std::size_t size) {
    const Input taken = rest_.first(std::min(size, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }
  std::string_view all() { return text(rest_.size()); }

 private:
  Input rest_;
};

}  // namespace ddp::fuzz

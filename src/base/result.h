// Result<T, E> holds a value, or the reason why there is none. The launcher reports the results of system calls and
// other outside events with it.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace ddp::base {

// Holds the usual reason, a sentence for the user.
struct Failure {
  std::string message;
};

// Holds either a T or an E, and converts implicitly from both. T and E must differ.
template <typename T, typename E = Failure>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(E error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  // Aborts (a bug) unless ok().
  T& value() & {
    DDP_CHECK(ok());
    return std::get<0>(state_);
  }
  const T& value() const& {
    DDP_CHECK(ok());
    return std::get<0>(state_);
  }
  T&& value() && {
    DDP_CHECK(ok());
    return std::get<0>(std::move(state_));
  }

  // Aborts (a bug) if ok().
  const E& error() const {
    DDP_CHECK(!ok());
    return std::get<1>(state_);
  }

 private:
  std::variant<T, E> state_;
};

}  // namespace ddp::base

// Replaces a function in a table of functions, such as CudaApi or NcclApi, by one that holds state.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

#include "runtime/backend/nccl/nccl_api.h"

namespace ddp::test {

// Keeps the bodies that one place of the source has put into tables. A plain function holds no state, so each of the
// latest ones has a function of its own. Threads that are left behind may still call an earlier one, or call one while
// the process ends.
template <typename Body, typename Result, typename... Args>
class ReplacedFunctions {
 public:
  using Function = Result (*)(Args...);

  static Function add(Body body) {
    static std::atomic<std::size_t> next = 0;
    const std::size_t place = next++ % kMost;
    std::atomic_store(&bodies()[place], std::make_shared<const Body>(std::move(body)));
    return function(place, std::make_index_sequence<kMost>());
  }

 private:
  static constexpr std::size_t kMost = 16;

  static auto& bodies() {
    static auto& all = *new std::array<std::shared_ptr<const Body>, kMost>;
    return all;
  }
  template <std::size_t kPlace>
  static Result call(Args... args) {
    return (*std::atomic_load(&bodies()[kPlace]))(std::forward<Args>(args)...);
  }
  template <std::size_t... kPlaces>
  static Function function(std::size_t place, std::index_sequence<kPlaces...>) {
    constexpr std::array<Function, kMost> kFunctions = {&call<kPlaces>...};
    return kFunctions[place];
  }
};

template <typename Body, typename Result, typename... Args>
void replace(Result (*&entry)(Args...), Body body) {
  entry = ReplacedFunctions<Body, Result, Args...>::add(std::move(body));
}
template <typename Body, std::atomic<int>& kRunning, typename... Args>
void replace(internal::NcclCall<kRunning, Args...>& entry, Body body) {
  replace(entry.function, std::move(body));
}

}  // namespace ddp::test

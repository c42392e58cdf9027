// Runs work that may hang, for example on a file system, on its own thread. The caller may stop waiting for it. The
// thread then continues detached.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

#include "base/unique_fd.h"

namespace ddp::base {

// Returns the result of `work`, or its exception. `work` must own all that it uses. Throws std::system_error if no
// thread can be created.
template <typename Work>
std::future<std::invoke_result_t<Work>> on_side_thread(Work work) {
  std::packaged_task<std::invoke_result_t<Work>()> task(std::move(work));
  auto result = task.get_future();
  std::thread(std::move(task)).detach();
  return result;
}

// The same for an event loop.
template <typename Result>
class SideThread {
 public:
  // `work` must own all that it uses. If no thread can be created, there is no result.
  template <typename Work>
  explicit SideThread(Work work) : shared_(std::make_shared<Shared>()) {
    try {
      std::thread([shared = shared_, work = std::move(work)]() mutable {
        shared->result = work();
        shared->is_done = true;
        wake(*shared);
      }).detach();
    } catch (const std::system_error&) {
      wake(*shared_);
    }
  }

  // The descriptor becomes readable when the work is finished.
  int ready() const { return shared_->ready.get(); }

  // Moves the result out. Returns std::nullopt if the work is not done.
  std::optional<Result> result() {
    if (!shared_->is_done.exchange(false)) return std::nullopt;
    return std::move(shared_->result);
  }

 private:
  struct Shared {
    Result result{};
    std::atomic<bool> is_done = false;
    UniqueFd ready{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  };

  static void wake(const Shared& shared) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(shared.ready.get(), &one, sizeof one);
  }

  std::shared_ptr<Shared> shared_;
};

}  // namespace ddp::base

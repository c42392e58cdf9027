// Runs an EventLoop on another thread.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "net/event_loop.h"

namespace ddp::test {

//   LoopThread loop;
//   loop.run([&] { watch = loop.loop().at(…); });   // on the loop's thread; returns when it is done
class LoopThread {
 public:
  LoopThread() : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    arm();
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~LoopThread() {
    run([this] { loop_.stop(); });
    thread_.join();
  }
  LoopThread(const LoopThread&) = delete;
  LoopThread& operator=(const LoopThread&) = delete;

  net::EventLoop& loop() { return loop_; }

  void run(std::function<void()> action) {
    std::packaged_task<void()> task(std::move(action));
    std::future<void> done = task.get_future();
    {
      const std::lock_guard lock(mutex_);
      actions_.push_back(std::move(task));
    }
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
    done.get();
  }

 private:
  void arm() {
    watch_ = loop_.watch_readable(wake_.get(), [this] {
      std::uint64_t count = 0;
      [[maybe_unused]] const ssize_t got = ::read(wake_.get(), &count, sizeof count);
      std::vector<std::packaged_task<void()>> actions;
      {
        const std::lock_guard lock(mutex_);
        actions.swap(actions_);
      }
      arm();
      for (auto& action : actions) action();
    });
  }

  base::UniqueFd wake_;
  net::EventLoop loop_;
  std::unique_ptr<net::Watch> watch_;
  std::mutex mutex_;
  std::vector<std::packaged_task<void()>> actions_;
  std::thread thread_;
};

}  // namespace ddp::test

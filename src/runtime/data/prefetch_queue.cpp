#include <ddp/error.h>
#include <ddp/prefetch_queue.h>
#include <ddp/progress.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace ddp {

// Results wait in a ring: the place of job n is n mod `ahead`. When the consumer has taken the result of job n - ahead,
// the place is free and job n may begin.
class PrefetchQueue::Implementation {
 public:
  Implementation(Options options, Job job)
      : jobs_(options.jobs),
        ahead_(std::clamp<std::int64_t>(options.ahead, 1, std::max<std::int64_t>(options.jobs, 1))),
        job_(std::move(job)),
        outcomes_(static_cast<std::size_t>(ahead_)) {}

  ~Implementation() {
    {
      const std::lock_guard lock(mutex_);
      stop_.request_stop();
    }
    may_begin_.notify_all();
    threads_.clear();  // joins the threads
  }
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;

  void start(int threads) {
    const auto useful = static_cast<int>(std::min({std::int64_t{threads}, ahead_, jobs_}));
    for (int i = 0; i < useful; ++i) {
      try {
        threads_.emplace_back([this] { serve(); });
      } catch (const std::system_error& error) {
        throw Error(ErrorKind::unavailable, "cannot start thread " + std::to_string(i + 1) + " of " +
                                                std::to_string(useful) + " to load data: " + error.code().message());
      }
    }
  }

  std::shared_ptr<void> next() {
    std::unique_lock lock(mutex_);
    if (taken_ == jobs_) return nullptr;
    Outcome& outcome = outcome_of(taken_);
    std::optional<PhaseScope> phase;
    if (!outcome.done) phase.emplace(Phase::data_loading, "", CallSite());
    if (threads_.empty() && begun_ == taken_) {
      ++begun_;
      outcome = run(taken_);
    }
    is_done_.wait(lock, [&] { return outcome.done; });
    if (outcome.failure) std::rethrow_exception(outcome.failure);
    ++taken_;
    may_begin_.notify_one();
    return std::exchange(outcome, {}).result;
  }

 private:
  struct Outcome {
    bool done = false;
    std::shared_ptr<void> result;
    std::exception_ptr failure;
  };

  Outcome& outcome_of(std::int64_t number) { return outcomes_[static_cast<std::size_t>(number % ahead_)]; }

  Outcome run(std::int64_t number) {
    try {
      return {.done = true, .result = job_(number, stop_.get_token()), .failure = nullptr};
    } catch (...) {
      return {.done = true, .result = nullptr, .failure = std::current_exception()};
    }
  }

  // Each thread runs this function.
  void serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      may_begin_.wait(lock, [&] { return has_ended() || begun_ < taken_ + ahead_; });
      if (has_ended()) return;
      const std::int64_t number = begun_++;
      lock.unlock();
      Outcome outcome = run(number);
      lock.lock();
      failed_ = failed_ || outcome.failure != nullptr;
      outcome_of(number) = std::move(outcome);
      is_done_.notify_one();
    }
  }

  bool has_ended() const { return stop_.stop_requested() || failed_ || begun_ == jobs_; }

  const std::int64_t jobs_;
  const std::int64_t ahead_;
  const Job job_;
  std::stop_source stop_;
  std::mutex mutex_;
  std::condition_variable may_begin_;  // the threads wait for it
  std::condition_variable is_done_;    // the consumer waits for it
  std::vector<Outcome> outcomes_;
  std::int64_t begun_ = 0;
  std::int64_t taken_ = 0;
  bool failed_ = false;
  std::vector<std::jthread> threads_;
};

PrefetchQueue::PrefetchQueue(Options options, Job job)
    : implementation_(std::make_unique<Implementation>(options, std::move(job))) {
  if (options.threads > 0) implementation_->start(options.threads);
}

PrefetchQueue::~PrefetchQueue() = default;

std::shared_ptr<void> PrefetchQueue::next() {
  return implementation_->next();
}

}  // namespace ddp

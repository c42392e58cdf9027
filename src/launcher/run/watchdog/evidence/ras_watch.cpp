#include "launcher/run/watchdog/evidence/ras_watch.h"

#include <algorithm>
#include <utility>

namespace ddp::launcher {
namespace {

using namespace std::chrono_literals;

constexpr auto kInterval = 2s;
constexpr int kShare = 10;                // an answer takes at most one tenth of the time
constexpr auto kIntervalOfSilence = 10s;  // as long as nothing answers: there may be no NCCL
constexpr auto kTooOld = 60s;             // an older answer is not used
// RAS waits for ranks that do not answer. Ranks that are only slow must not make an answer useless.
constexpr auto kPatience = 4s;

}  // namespace

void RasWatch::set_environment(std::span<const std::string> environment) {
  address_ = ras_address_in(environment);
}

bool RasWatch::poll(Clock::time_point now, const std::vector<RankView>& ranks) {
  const bool has_news = take_answer(now) || forget_old(now);
  if (!question_ && address_ && now >= next_ && has_unknown_rank(ranks)) {
    asked_at_ = now;
    next_ = now + 2 * kPatience;
    // An answer of many ranks takes time to read, so the thread does that, too.
    question_.emplace([address = *address_] {
      auto status = read_ras_status(ask_ras_status(address, Clock::now() + kPatience));
      return status ? std::optional(std::move(status).value()) : std::nullopt;
    });
  }
  return has_news;
}

// An answer that is missing or broken changes nothing.
bool RasWatch::take_answer(Clock::time_point now) {
  if (!question_) return false;
  auto answer = question_->result();
  if (!answer && now < next_) return false;
  question_.reset();  // if there is no answer yet, no thread could be started, or it hangs
  std::optional<RasStatus> status = std::move(answer).value_or(std::nullopt);
  next_ = now + (status ? std::max<Clock::duration>(kInterval, kShare * (now - asked_at_)) : kIntervalOfSilence);
  if (!status) return false;
  keep_what_is_left_out(status_, *status);
  answered_at_ = now;
  return std::exchange(status_, std::move(*status)) != status_;
}

bool RasWatch::forget_old(Clock::time_point now) {
  if (status_.empty() || now - answered_at_ < kTooOld) return false;
  status_.clear();
  return true;
}

}  // namespace ddp::launcher

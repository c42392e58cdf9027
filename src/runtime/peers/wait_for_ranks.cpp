#include "runtime/peers/wait_for_ranks.h"

#include <ddp/error.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "runtime/limits.h"

namespace ddp::internal {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

// The rank that served the store may have ended. The kernel closes its connections shortly before other ranks can see
// that it has ended, so one look is not enough. Pauses are counted, not time, because a busy computer delays that rank
// as it delays this one.
void check_for_a_while(const std::function<void()>& check_members) {
  constexpr milliseconds kPause{1};
  for (milliseconds paused{0}; paused < limits::kLostRankWait; paused += kPause) {
    check_members();
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

std::vector<std::string> keys_of_ranks(const std::string& name, int size) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < size; ++rank) keys.push_back(name + "/" + std::to_string(rank));
  return keys;
}

void wait_for_ranks(Store& store, std::span<const std::string> keys, milliseconds patience, StatusPage page,
                    const std::function<void()>& check_members) {
  const ThreadWaits shown(page);
  if (!check_members) return store.wait(keys, patience);
  const auto end = steady_clock::now() + patience;
  milliseconds pause = limits::kMeetingPoll;
  while (true) {
    try {
      return store.wait(keys, std::exchange(pause, std::min<milliseconds>(2 * pause, limits::kMeetingLongestPoll)));
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::unavailable) check_for_a_while(check_members);
      if (error.kind() != ErrorKind::timeout || steady_clock::now() > end) throw;
    }
    try {
      check_members();
    } catch (const Error&) {
      // The rank may have written its key and ended since.
      if (store.check(keys)) return;
      throw;
    }
  }
}

}  // namespace ddp::internal

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
void look_for_a_while(const std::function<void()>& look_around) {
  constexpr milliseconds kPause{1};
  for (milliseconds paused{0}; paused < limits::kLostLook; paused += kPause) {
    look_around();
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
                    const std::function<void()>& look_around) {
  const ThreadWaits shown(page);
  if (!look_around) return store.wait(keys, patience);
  const auto end = steady_clock::now() + patience;
  milliseconds pause = limits::kMeetingLook;
  while (true) {
    try {
      return store.wait(keys, std::exchange(pause, std::min<milliseconds>(2 * pause, limits::kMeetingLongestLook)));
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::unavailable) look_for_a_while(look_around);
      if (error.kind() != ErrorKind::timeout || steady_clock::now() > end) throw;
    }
    try {
      look_around();
    } catch (const Error&) {
      // The rank may have written its key and ended since.
      if (store.check(keys)) return;
      throw;
    }
  }
}

}  // namespace ddp::internal

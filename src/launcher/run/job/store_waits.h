// StoreWaits reports ranks that wait in the store for others for long. There, PyTorch's ranks meet before they have a
// process group (docs/development/decisions/0054-long-waits-in-the-store.md).
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "store/server/store_ranks.h"

namespace ddp::launcher {

// Returns a sentence such as "ranks 0, 2 have waited in init_process_group for rank 1 for 30 s; rank 1 is not connected
// to the store".
std::string describe(const store::LongWait& wait, std::chrono::nanoseconds lasted);

class StoreWaits {
 public:
  // A wait is reported once, after `least`.
  explicit StoreWaits(std::chrono::nanoseconds least) : least_(least) {}

  // Returns the sentences that are due. A client may stop waiting, to log something, and begin again. So a key that was
  // waited for less than limits::kStoreWaitGap ago is still waited for.
  std::vector<std::string> add(const std::vector<store::LongWait>& waits, store::TimePoint now);

  // Forgets everything, because an attempt begins.
  void clear() { *this = StoreWaits(least_); }

 private:
  struct Entry {
    store::TimePoint since;
    store::TimePoint seen_at;
    bool is_reported = false;
  };

  std::chrono::nanoseconds least_;
  std::map<std::string, Entry> entries_;  // by key
  int reports_ = 0;
};

}  // namespace ddp::launcher

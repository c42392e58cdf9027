#include <ddp/store.h>

#include <condition_variable>
#include <mutex>

#include "store/local/table_store.h"

namespace ddp {
namespace {

using std::chrono::milliseconds;

class MemoryStore : public store::TableStore {
 public:
  using TableStore::TableStore;

 protected:
  bool take_turn(const Condition& ready, milliseconds timeout, bool changes, const Step& step) override {
    std::unique_lock lock(mutex_);
    if (ready && !changed_.wait_for(lock, timeout, [&] { return ready(table_); })) return false;
    for (const store::TableChange& change : step(table_)) table_.apply(change);
    // All waiters are woken, because they wait for different keys. If several wait for one value of a queue, the first
    // to get the lock takes it.
    if (changes) changed_.notify_all();
    return true;
  }

  std::string place() const override { return ""; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  store::LocalTable table_;
};

}  // namespace

std::shared_ptr<Store> make_memory_store(milliseconds timeout) {
  return std::make_shared<MemoryStore>(timeout);
}

}  // namespace ddp

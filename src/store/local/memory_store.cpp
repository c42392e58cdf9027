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
  void look(const Look& look) override {
    const std::lock_guard lock(mutex_);
    look(table_);
  }

  bool look_when(const Condition& ready, milliseconds timeout, const Look& look) override {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, timeout, [&] { return ready(table_); })) return false;
    look(table_);
    return true;
  }

  void change(const Step& step) override {
    const std::lock_guard lock(mutex_);
    apply(step(table_));
  }

  bool change_when(const Condition& ready, milliseconds timeout, const Step& step) override {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, timeout, [&] { return ready(table_); })) return false;
    apply(step(table_));
    return true;
  }

  std::string place() const override { return ""; }

 private:
  void apply(const Changes& changes) {
    for (const store::TableChange& change : changes) table_.apply(change);
    // All: they wait for different keys. Of those that wait for one value of a queue, the first to come has it.
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  store::LocalTable table_;
};

}  // namespace

std::shared_ptr<Store> make_memory_store(milliseconds timeout) {
  return std::make_shared<MemoryStore>(timeout);
}

}  // namespace ddp

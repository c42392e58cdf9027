#include <ddp/memory_pool.h>

#include <mutex>
#include <utility>
#include <vector>

namespace ddp {

struct MemoryPool::Shelf {
  std::mutex mutex;
  std::vector<Memory> free;
};

MemoryPool::MemoryPool(const ProcessGroup& group, std::size_t count, DataType type)
    : group_(group), count_(count), type_(type), shelf_(std::make_shared<Shelf>()) {}

Memory MemoryPool::take() {
  Memory taken;
  {
    const std::lock_guard lock(shelf_->mutex);
    if (!shelf_->free.empty()) {
      taken = std::move(shelf_->free.back());
      shelf_->free.pop_back();
    }
  }
  if (taken.buffer().data == nullptr) taken = group_.allocate_pinned(count_, type_);
  const Buffer buffer = taken.buffer();
  auto lent = std::make_unique<Memory>(std::move(taken));
  return {buffer, std::shared_ptr<void>(lent.release(), [shelf = std::weak_ptr(shelf_)](void* pointer) {
            const std::unique_ptr<Memory> back(static_cast<Memory*>(pointer));
            const auto alive = shelf.lock();
            if (!alive) return;
            const std::lock_guard lock(alive->mutex);
            alive->free.push_back(std::move(*back));
          })};
}

}  // namespace ddp

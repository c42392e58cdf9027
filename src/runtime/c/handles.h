// This file maps the handles of C programs to objects.
//
// A handle is a number that is never used twice, in the form of a pointer that is never dereferenced. So a destroyed
// handle is recognised, even if other threads use it at the same time. An object lives until the last call that has
// found it is over.
#pragma once

#include <ddp/memory.h>
#include <ddp/process_group.h>
#include <ddp/progress.h>
#include <ddp/work.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <unordered_map>

#include "runtime/c/boundary.h"

namespace ddp::internal {

// The class is thread-safe. `Handle` is the incomplete type of <ddp/c.h>.
template <typename Handle, typename Object>
class HandleTable {
 public:
  // `name` is the name of the type for messages. `kind` differs between tables, so that no handle is in two of them.
  HandleTable(const char* name, std::uintptr_t kind) : name_(name), last_(kind) {}

  Handle* add(std::shared_ptr<Object> object) {
    const std::lock_guard lock(mutex_);
    last_ += kStep;
    objects_.emplace(last_, std::move(object));
    return reinterpret_cast<Handle*>(last_);
  }

  // Returns the object. Throws invalid_argument if there is no such object.
  std::shared_ptr<Object> find(const char* function, const Handle* handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<std::uintptr_t>(handle));
    if (found == objects_.end()) refuse_handle(function, handle);
    return found->second;
  }

  // Returns the object and removes the handle. Throws invalid_argument if there is no such object.
  std::shared_ptr<Object> take(const char* function, const Handle* handle) {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<std::uintptr_t>(handle));
    if (found == objects_.end()) refuse_handle(function, handle);
    std::shared_ptr<Object> object = std::move(found->second);
    objects_.erase(found);
    return object;
  }

  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return objects_.size();
  }

 private:
  // The last two bits are 0, as in a pointer to any structure.
  static constexpr std::uintptr_t kStep = 64;

  [[noreturn]] void refuse_handle(const char* function, const Handle* handle) const {
    if (handle == nullptr) refuse(function, std::string("the ") + name_ + " is a null pointer");
    std::ostringstream text;
    text << handle << " is not a live " << name_ << ": it was destroyed or never created";
    refuse(function, text.str());
  }

  const char* const name_;
  mutable std::mutex mutex_;
  std::uintptr_t last_;
  std::unordered_map<std::uintptr_t, std::shared_ptr<Object>> objects_;
};

// Holds the memory that C programs have allocated, by its address. The class is thread-safe.
class AllocatedMemory {
 public:
  void* add(Memory memory);
  // Throws invalid_argument if there is no memory with this address.
  void free(const char* function, void* address);

 private:
  std::mutex mutex_;
  std::map<void*, Memory> memories_;
};

struct Handles {
  HandleTable<ddp_group, ProcessGroup> groups{"ddp_group", 0};
  HandleTable<ddp_work, Work> works{"ddp_work", 16};
  HandleTable<ddp_progress, PhaseScope> phases{"ddp_progress", 32};
  AllocatedMemory memory;
};

// Returns the handles of the process. C programs have no object that could hold them. The handles are never destroyed,
// so that a program that exits without ddp_group_destroy() does not wait for other ranks.
inline Handles& handles() {
  static Handles& all = *std::make_unique<Handles>().release();
  return all;
}

}  // namespace ddp::internal

// Defines a Backend that moves no bytes. It records the calls, and fails or blocks if the test asks for it.
#pragma once

#include <ddp/error.h>

#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/group/group_core.h"
#include "support/deadline.h"

namespace ddp::test {

using namespace internal;

// The test and the backend, which belongs to the group, share this object. Thread-safe.
class Script {
 public:
  // Makes the call of this number (from 1) throw.
  void fail_at(std::size_t call, ErrorKind kind) {
    const std::lock_guard lock(mutex_);
    failing_call_ = call;
    failure_ = kind;
  }
  // Blocks all calls from now on until release().
  void block() {
    const std::lock_guard lock(mutex_);
    blocked_ = true;
  }
  void release() {
    const std::lock_guard lock(mutex_);
    blocked_ = false;
    changed_.notify_all();
  }
  // Returns false if fewer calls have begun in time.
  bool reaches(std::size_t calls) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return calls_.size() >= calls; });
  }
  std::vector<std::string> calls() {
    const std::lock_guard lock(mutex_);
    return calls_;
  }
  std::size_t finished() {
    const std::lock_guard lock(mutex_);
    return finished_;
  }

  // The backend calls this function.
  void carry_out(std::string call) {
    std::unique_lock lock(mutex_);
    calls_.push_back(std::move(call));
    changed_.notify_all();
    if (calls_.size() == failing_call_) throw Error(failure_, "as the script says");
    changed_.wait_for(lock, kPatience, [&] { return !blocked_; });
    ++finished_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> calls_;
  std::size_t finished_ = 0;
  std::size_t failing_call_ = 0;
  ErrorKind failure_ = ErrorKind::internal;
  bool blocked_ = false;
};

class ScriptedBackend : public Backend {
 public:
  ScriptedBackend(std::shared_ptr<Script> script, int size) : script_(std::move(script)), size_(size) {}

  std::string_view name() const override { return "scripted"; }
  void run(const Call& call) override {
    std::string text(to_string(call.operation));
    if (call.operation == Operation::all_reduce) text += " " + std::string(to_string(call.op.kind));
    if (call.peer >= 0) text += " " + std::to_string(call.peer);
    if (call.operation != Operation::barrier) text += " " + describe(subject_of(call));
    script_->carry_out(text);
    if (call.operation != Operation::all_gather) return;
    // All ranks have the same input as this one.
    for (int rank = 0; rank < size_; ++rank) {
      const Buffer part = output_part(call, rank, size_);
      std::memcpy(part.data, call.input.data, part.bytes());
    }
  }

 private:
  static std::string describe(const ConstBuffer& buffer) {
    return std::string(to_string(buffer.type)) + "[" + std::to_string(buffer.count) + "]";
  }

  std::shared_ptr<Script> script_;
  int size_;
};

// Makes a group on one backend, without a store.
inline ProcessGroup make_group(std::unique_ptr<Backend> backend, int rank, int size) {
  GroupDescription description;
  description.options.rank = rank;
  description.options.size = size;
  description.options.timeout = kPatience;
  description.backend_reason = "scripted";
  return ProcessGroup(std::make_unique<GroupCore>(std::move(description), std::move(backend)));
}

// Makes a group on a ScriptedBackend.
struct ScriptedGroup {
  std::shared_ptr<Script> script = std::make_shared<Script>();
  ProcessGroup group;

  explicit ScriptedGroup(int size = 1, int rank = 0)
      : group(make_group(std::make_unique<ScriptedBackend>(script, size), rank, size)) {}
};

}  // namespace ddp::test

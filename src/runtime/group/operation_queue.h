// OperationQueue: runs a group's collectives one after the other on a thread of its own, so that the caller can go on
// computing. The first failure breaks the queue: everything after it fails with `aborted`.
#pragma once

#include <ddp/work.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace ddp {

class OperationQueue {
 public:
  OperationQueue();
  // Lets the running operation end; those not begun fail with `aborted`.
  ~OperationQueue();
  OperationQueue(const OperationQueue&) = delete;
  OperationQueue& operator=(const OperationQueue&) = delete;

  // Any thread. `description` names the operation in errors: "all_reduce #12 of f32[1024]".
  Work push(std::string description, std::function<void()> run);

 private:
  struct Operation {
    std::string description;
    std::function<void()> run;
    std::shared_ptr<WorkState> state;
  };

  void run();
  void execute(Operation& operation);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Operation> waiting_;
  bool closing_ = false;
  std::string broken_by_;  // the queue's thread only
  std::thread thread_;     // last: starts when all else is there
};

}  // namespace ddp

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
  // Lets the running operation end; those not begun fail with `aborted`. While an exception unwinds the stack it waits
  // for a second only and then leaves the operation to itself: peers that wait for this rank would hold it until the
  // time-out, and nobody would hear of the exception.
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

  // Shared with the thread, which may outlive the queue.
  struct State {
    void run();
    void execute(Operation& operation);

    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Operation> waiting;
    bool closing = false;
    bool ended = false;
    std::string broken_by;  // the queue's thread only
  };

  std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace ddp

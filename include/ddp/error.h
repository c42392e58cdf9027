// ddp::Error, the one exception type of the runtime.
#pragma once

#include <ddp/export.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace ddp {

// Chosen by what the caller can do about it.
enum class ErrorKind {
  invalid_argument,  // mend the call
  timeout,           // a peer did not answer in time; leave, be restarted
  peer_lost,         // a peer is gone; leave, be restarted
  mismatch,          // the ranks disagree: their programs or data differ
  unavailable,       // what was asked for does not work here; choose something else
  aborted,           // the group was closed while the call was under way
  corrupt,           // a file's content is not what was written
  internal,          // a fault of the runtime; report it
};

// "peer_lost" and so on: the enumerator's name.
DDP_EXPORT std::string_view to_string(ErrorKind kind);

// Thrown by every function of the runtime that fails. what() says what was tried, on what, why it failed and what to
// do. Copyable; safe to move between threads.
class DDP_EXPORT Error : public std::runtime_error {
 public:
  static constexpr int kNobody = -1;

  Error(ErrorKind kind, const std::string& message, int peer = kNobody)
      : std::runtime_error(message), kind_(kind), peer_(peer) {}

  ErrorKind kind() const { return kind_; }
  // The rank (of the group) that is gone, missing or different, if one is known.
  int peer() const { return peer_; }

 private:
  ErrorKind kind_;
  int peer_;
};

// What a failed collective throws: an Error that knows which one it was.
class DDP_EXPORT OperationError : public Error {
 public:
  struct Operation {
    std::string group;           // the process group's name
    int rank = 0;                // this process's rank in it
    std::string name;            // "all_reduce"
    std::uint64_t sequence = 0;  // from 1, in the order of the calls on this group
  };

  OperationError(ErrorKind kind, const std::string& message, int peer, Operation operation)
      : Error(kind, message, peer), operation_(std::move(operation)) {}

  const Operation& operation() const { return operation_; }

 private:
  Operation operation_;
};

}  // namespace ddp

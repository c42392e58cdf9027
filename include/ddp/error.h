// ddp::Error is the only exception type of the runtime.
#pragma once

#include <ddp/export.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace ddp {

// The kinds are grouped by what the caller can do about them.
enum class ErrorKind {
  invalid_argument,  // correct the call
  timeout,           // a peer did not answer in time; exit and let the launcher restart the job
  peer_lost,         // a peer is gone; exit and let the launcher restart the job
  mismatch,          // the ranks disagree because their programs or data differ
  unavailable,       // the request does not work here; use an alternative
  aborted,           // the group was closed while the call was under way
  corrupt,           // a file's content differs from what was written
  internal,          // a defect of the runtime; report it
};

// Returns the enumerator's name, such as "peer_lost".
DDP_EXPORT std::string_view to_string(ErrorKind kind);

// Every function of the runtime that fails throws an Error. what() says what was tried, on what, why it failed and what
// to do. An Error is copyable and safe to move between threads.
class DDP_EXPORT Error : public std::runtime_error {
 public:
  static constexpr int kNobody = -1;

  Error(ErrorKind kind, const std::string& message, int peer = kNobody)
      : std::runtime_error(message), kind_(kind), peer_(peer) {}

  ErrorKind kind() const { return kind_; }
  // Returns the rank (in the group) that is gone, missing or different, or kNobody if it is unknown.
  int peer() const { return peer_; }

 private:
  ErrorKind kind_;
  int peer_;
};

// A failed collective throws an OperationError, which describes the operation.
class DDP_EXPORT OperationError : public Error {
 public:
  struct Operation {
    std::string group;           // the process group's name
    int rank = 0;                // this process's rank in the group
    std::string name;            // "all_reduce"
    std::uint64_t sequence = 0;  // counts from 1 in the order of the calls on this group
  };

  OperationError(ErrorKind kind, const std::string& message, int peer, Operation operation)
      : Error(kind, message, peer), operation_(std::move(operation)) {}

  const Operation& operation() const { return operation_; }

 private:
  Operation operation_;
};

}  // namespace ddp

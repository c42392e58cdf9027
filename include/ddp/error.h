// ddp::Error, the one exception type of the runtime.
#pragma once

#include <ddp/version.h>

#include <stdexcept>
#include <string>
#include <string_view>

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
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}

  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace ddp

#include <ddp/error.h>

namespace ddp {

std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid_argument:
      return "invalid_argument";
    case ErrorKind::timeout:
      return "timeout";
    case ErrorKind::peer_lost:
      return "peer_lost";
    case ErrorKind::mismatch:
      return "mismatch";
    case ErrorKind::unavailable:
      return "unavailable";
    case ErrorKind::aborted:
      return "aborted";
    case ErrorKind::corrupt:
      return "corrupt";
    case ErrorKind::internal:
      return "internal";
  }
  return "unknown";
}

}  // namespace ddp

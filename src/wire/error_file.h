// These fields are in TORCHELASTIC_ERROR_FILE in addition to torchrun's. The runtime writes them, and the launcher
// reads them.
#pragma once

#include <string_view>

namespace ddp::wire {

inline constexpr const char* kErrorKind = "ddp_kind";  // to_string(ErrorKind)
inline constexpr const char* kErrorPeer = "ddp_peer";  // the lost rank, if it is known

inline constexpr std::string_view kPeerLost = "peer_lost";  // ErrorKind::peer_lost
inline constexpr std::string_view kMismatch = "mismatch";   // ErrorKind::mismatch
inline constexpr std::string_view kTimeout = "timeout";     // ErrorKind::timeout

}  // namespace ddp::wire

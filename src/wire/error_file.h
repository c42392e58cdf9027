// These fields are in TORCHELASTIC_ERROR_FILE in addition to torchrun's. The runtime writes the first ones, and the
// launcher reads them.
#pragma once

#include <string_view>

namespace ddp::wire {

inline constexpr const char* kErrorKind = "ddp_kind";  // to_string(ErrorKind)
inline constexpr const char* kErrorPeer = "ddp_peer";  // the lost rank, if it is known

// The launcher adds these beside "message" when it passes the error of its job to another launcher.
inline constexpr const char* kErrorCause = "ddp_cause";    // name_of(CauseCode)
inline constexpr const char* kErrorRepeat = "ddp_repeat";  // whether to start the job again: "yes", "no", …

inline constexpr std::string_view kPeerLost = "peer_lost";  // ErrorKind::peer_lost
inline constexpr std::string_view kMismatch = "mismatch";   // ErrorKind::mismatch
inline constexpr std::string_view kTimeout = "timeout";     // ErrorKind::timeout

}  // namespace ddp::wire

// What a host's name may look like, and how somebody else's text is shown in a message. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ddp::launcher {

inline constexpr std::size_t kHosts = 65'536;           // of one job
inline constexpr std::size_t kHostNameBytes = 512;      // a DNS name has 253 at most, and there may be a user's name
inline constexpr std::int64_t kWorkersOfHost = 65'536;  // that a host list or file may ask for

// Letters and digits of ASCII, and . - _ : % @: names, addresses of both kinds with their zones, user@host.
bool is_host_character(char character);

// In quotes and fit for a terminal: what is not printable ASCII, quotes and backslashes as "\x1b"; cut after `most`
// bytes, with an ellipsis.
std::string shown(std::string_view text, std::size_t most = 60);

// "host "part" why".
base::Failure wrong_host(std::string_view part, const std::string& why);

}  // namespace ddp::launcher

// What a host's name may look like, and host lists with brackets, as Slurm, ClusterShell and pdsh write them. Pure: the
// image that a job runs in need not have Slurm's own tools.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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

// The names that a list stands for, in its order: "n[1-2,7],tux" is n1, n2, n7 and tux. A number has at least as many
// digits as the first one of its range ("n[09-11]" is n09, n10, n11). With several pairs of brackets the last one
// changes first and the first one last (of three and more Slurm orders the others the other way round; it writes no
// such lists itself). Names that stand there twice do so in the result. Text may follow the last bracket, which Slurm
// refuses: "n[1-3].example.com". Empty text has no names.
//
// Refused, before any name is made: brackets that do not match or hold something else than numbers and ranges that
// count up, names that are empty, begin with a dash or have characters that no host has (whitespace, quotes, …), more
// than kHosts names, names of more than kHostNameBytes.
base::Result<std::vector<std::string>> expand_host_list(std::string_view text);

// The parts of such a list between the commas that are not in brackets. Empty text has none; nothing is checked.
std::vector<std::string_view> split_host_list(std::string_view text);

}  // namespace ddp::launcher

// Checks host names, and expands host lists with brackets as Slurm, ClusterShell and pdsh write them. The functions are
// pure and run no program: the image that a job runs in may lack Slurm's own tools.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ddp::launcher {

inline constexpr std::size_t kHosts = 65'536;           // most hosts of one job
inline constexpr std::size_t kHostNameBytes = 512;      // a DNS name has at most 253, and a user name may precede it
inline constexpr std::int64_t kWorkersOfHost = 65'536;  // most workers that a host list or file may request

// Accepts ASCII letters and digits, and . - _ : % @. These occur in names, in addresses of both kinds with their zones,
// and in user@host.
bool is_host_character(char character);

// Returns the text in quotes and safe for a terminal. Quotes, backslashes and all bytes that are not printable ASCII
// are escaped, as in "\x1b". Text longer than `most` bytes is cut and ends with an ellipsis.
std::string shown(std::string_view text, std::size_t most = 60);

// Returns the failure "host "part" why".
base::Failure wrong_host(std::string_view part, const std::string& why);

// Returns the names that a list stands for, in its order: "n[1-2,7],tux" is n1, n2, n7 and tux. A number has at least
// as many digits as the first one of its range: "n[09-11]" is n09, n10, n11. With several pairs of brackets, the last
// one varies fastest and the first one slowest. If there are three or more pairs, Slurm orders the middle ones the
// other way round; it writes no such lists itself. A name that appears twice in the list appears twice in the result.
// Text may follow the last bracket, as in "n[1-3].example.com", which Slurm refuses. Empty text has no names.
//
// All checks precede the expansion. Brackets must match and hold numbers or ascending ranges. A name must not be empty,
// begin with a dash, or be longer than kHostNameBytes. It must not have characters that no host name has (whitespace,
// quotes, …). There may be at most kHosts names.
base::Result<std::vector<std::string>> expand_host_list(std::string_view text);

// Splits such a list at the commas outside brackets. Empty text has no parts. The parts are not checked.
std::vector<std::string_view> split_host_list(std::string_view text);

}  // namespace ddp::launcher

// Host lists with brackets, as Slurm, ClusterShell and pdsh write them. Pure: the image that a job runs in need not
// have Slurm's own tools.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ddp::launcher {

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

// The hosts of a job as people name them, with numbers of workers: --hosts and --hostfile. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ddp::launcher {

struct HostEntry {
  std::string name;            // or an address, without brackets; maybe user@name
  std::optional<int> workers;  // nothing: not said

  friend bool operator==(const HostEntry&, const HostEntry&) = default;
};

// "a,b:4,node[1-3]:2": each part is a host list (host_list.h) and maybe a number of workers for each of its hosts. An
// IPv6 address is written [::1]:4, or ::1 without a number. Empty text has no hosts.
//
// Both functions keep the order in which hosts come first. For a host that comes again the numbers are added up; where
// they are not said, each time counts 1, and then so does each host that comes once: resource managers write a line for
// each slot. The same host with and without a number is refused, as are more than kHosts hosts.
base::Result<std::vector<HostEntry>> parse_hosts(std::string_view text);

// A file of lines "host", "host slots=4", "host:4" or "host 4", where a host is a part as above. max_slots=, blank
// lines and what follows a # are left out. A failure names the line.
base::Result<std::vector<HostEntry>> parse_host_file(std::string_view content);

}  // namespace ddp::launcher

// Parses the hosts of a job, with numbers of workers, as users write them in --hosts and --hostfile. The functions are
// pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ddp::launcher {

struct HostEntry {
  std::string name;            // host name, or address without brackets; may be user@name
  std::optional<int> workers;  // std::nullopt if not given

  friend bool operator==(const HostEntry&, const HostEntry&) = default;
};

// Parses text such as "a,b:4,node[1-3]:2". Each part is a host list (host_list.h), optionally with a number of workers
// for each of its hosts. An IPv6 address is written [::1]:4, or ::1 without a number. Empty text has no hosts.
//
// Both functions keep the order in which hosts first appear. If a host is repeated with numbers, the numbers are added
// up. If a host is repeated without a number, each mention of any host counts as one worker, because resource managers
// write one line per slot. A failure is returned if a host appears both with and without a number, or if there are more
// than kHosts hosts.
base::Result<std::vector<HostEntry>> parse_hosts(std::string_view text);

// Parses a file of lines "host", "host slots=4", "host:4" or "host 4", where a host is a part as described above.
// Ignores max_slots=, blank lines and text after a #. A failure names the line.
base::Result<std::vector<HostEntry>> parse_host_file(std::string_view content);

}  // namespace ddp::launcher

// What the system says of a process: /proc, which can be read without any right to the process itself.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddp::launcher {

struct ProcessLook {
  char state = '?';             // of its first thread, as in proc(5): R, S, D, T (stopped), t (traced), Z, …
  std::uint64_t cpu_ticks = 0;  // of all threads, user and system; sysconf(_SC_CLK_TCK) a second
  std::uint64_t waits = 0;      // how often its first thread has gone to sleep
  std::string waits_in;         // where in the kernel the first thread sleeps; may be empty

  bool is_stopped() const { return state == 'T' || state == 't'; }

  friend bool operator==(const ProcessLook&, const ProcessLook&) = default;
};

// The text of /proc/PID/stat. The second field may hold anything, spaces and brackets too.
std::optional<ProcessLook> parse_process_stat(std::string_view stat);

// Nothing if there is no such process. `with_waits`: `waits` and `waits_in`, too, each of which is a file of its own.
std::optional<ProcessLook> look_at_process(pid_t pid, bool with_waits);

}  // namespace ddp::launcher

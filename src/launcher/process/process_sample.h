// What the system says of a process: /proc, most of which can be read without any right to the process itself, and the
// sockets that it holds.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/exit_status.h"

namespace ddp::launcher {

// Threads of a program that may do something by themselves.
struct FreeThreads {
  int free = 0;    // all that another thread of the process need not wake first
  int acting = 0;  // of those: that do not wait for a thread to end, or for another process, without a time-out

  friend bool operator==(const FreeThreads&, const FreeThreads&) = default;
};

struct ProcessSample {
  char state = '?';             // of its first thread, as in proc(5): R, S, D, T (stopped), t (traced), Z, …
  std::uint64_t cpu_ticks = 0;  // of all threads, user and system; sysconf(_SC_CLK_TCK) a second
  std::uint64_t waits = 0;      // how often its first thread has gone to sleep
  std::string waits_in;         // where in the kernel the first thread sleeps; may be empty
  // Nothing: it was not asked, or the kernel does not tell.
  std::optional<FreeThreads> threads = {};

  bool is_stopped() const { return state == 'T' || state == 't'; }

  friend bool operator==(const ProcessSample&, const ProcessSample&) = default;
};

// The fields of /proc/PID/stat behind the name, which may hold anything, spaces and brackets too: "S", "4711", …; empty
// if it is no such text.
std::vector<std::string> fields_of_stat(std::string_view stat);
// A number among them, by the number of its field in proc(5), which counts from 1 and has two fields before these.
std::optional<std::uint64_t> stat_number(const std::vector<std::string>& fields, std::size_t number);

// The text of /proc/PID/stat.
std::optional<ProcessSample> parse_process_stat(std::string_view stat);

// Nothing if there is no such process. `with_waits`: `waits` and `waits_in`, too, each of which is a file of its own.
std::optional<ProcessSample> sample_process(pid_t pid, bool with_waits);

struct ThreadSample {
  pid_t tid = 0;
  std::string name;
  char state = '?';
  std::string waits_in;

  friend bool operator==(const ThreadSample&, const ThreadSample&) = default;
};

// The threads of a process, the first one first; at most `most`.
std::vector<ThreadSample> sample_threads(pid_t pid, std::size_t most);

// Of a process, except the thread `but` and those of the runtime's own (base/thread_name.h). Nothing if there are more
// than `most`, or there is no such process.
std::optional<FreeThreads> count_free_threads(pid_t pid, pid_t but, std::size_t most);

// The exit status of a process that has ended, and that its parent cannot reap yet, since a debugger holds it. Nothing
// if it has not ended, or if this user may not see its status.
std::optional<base::ExitStatus> status_of_zombie(pid_t pid);

// How the threads of a process, at most `most`, share the processors with others.
struct RunQueueSample {
  bool is_runnable = false;  // one runs now, or wants to and gets no processor
  // So long all of them together have wanted to run and got no processor. That of a thread which has got none since is
  // not in it. Nothing if the kernel does not count it (CONFIG_SCHED_INFO).
  std::optional<std::chrono::nanoseconds> waited;
  // What threads have done that answer the launcher's own questions (PyTorch's worker server): it is no sign of life,
  // and these threads are not in what stands above.
  std::uint64_t answering_ticks = 0;
  std::uint64_t answering_faults = 0;
};
RunQueueSample sample_run_queue(pid_t pid, std::size_t most);

// Whether the process has a handler of its own for this signal.
bool catches_signal(pid_t pid, int signal);

// Whether a thread blocks this signal.
bool blocks_signal(pid_t tid, int signal);

// The process of the program itself, if the worker is a wrapper around it (see is_wrapper()): as long as a wrapper has
// one child, that child.
pid_t program_of(pid_t worker);

// Whether its executable is a Python interpreter.
bool is_python(pid_t pid);

struct HeldSocket {
  std::uint64_t inode = 0;
  pid_t holder = 0;

  friend bool operator==(const HeldSocket&, const HeldSocket&) = default;
};

// Of these processes, in their order; those that were found until then. Reads nothing of /proc that waits for a
// process's memory, as its environment or command line does: one that hangs in a driver would make us hang.
std::vector<HeldSocket> sockets_of(std::span<const pid_t> processes, std::chrono::steady_clock::time_point until);

// Of `root` and its descendants, `root` first.
std::vector<HeldSocket> sockets_of(pid_t root, std::chrono::steady_clock::time_point until);

// "socket:[4711]", as the kernel shows what a descriptor leads to; nothing for anything else.
std::optional<std::uint64_t> socket_of_link(std::string_view link);

}  // namespace ddp::launcher

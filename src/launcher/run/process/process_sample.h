// Reads data about a process: /proc, most of which needs no right to the process itself, and the sockets that it holds.
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

// Counts threads of a program that may do something by themselves.
struct FreeThreads {
  int free = 0;  // threads that another thread of the process need not wake first
  // This counts the free threads that do not wait, without a time-out, for a thread to end or for another process.
  int acting = 0;

  friend bool operator==(const FreeThreads&, const FreeThreads&) = default;
};

struct ProcessSample {
  char state = '?';             // state of its first thread, as in proc(5): R, S, D, T (stopped), t (traced), Z, …
  std::uint64_t cpu_ticks = 0;  // time of all threads, user and system; sysconf(_SC_CLK_TCK) ticks per second
  std::uint64_t waits = 0;      // how often its first thread has gone to sleep
  std::string waits_in;         // where in the kernel the first thread sleeps; may be empty
  // This is std::nullopt if it was not requested, or if the kernel does not show it.
  std::optional<FreeThreads> threads = {};

  bool is_stopped() const { return state == 'T' || state == 't'; }

  friend bool operator==(const ProcessSample&, const ProcessSample&) = default;
};

// Returns std::nullopt if there is no such process. `with_waits` also reads `waits` and `waits_in`, each from a
// separate file.
std::optional<ProcessSample> sample_process(pid_t pid, bool with_waits);

struct ThreadSample {
  pid_t tid = 0;
  std::string name;
  char state = '?';
  std::string waits_in;

  friend bool operator==(const ThreadSample&, const ThreadSample&) = default;
};

// Returns at most `most` threads of a process, the first one first.
std::vector<ThreadSample> sample_threads(pid_t pid, std::size_t most);

// Counts the threads of a process, except the thread `but` and the runtime's own ones (base/thread_name.h). Returns
// std::nullopt if there are more than `most`, or if there is no such process.
std::optional<FreeThreads> count_free_threads(pid_t pid, pid_t but, std::size_t most);

// Returns the exit status of a process that has ended, but that its parent cannot reap yet, because a debugger holds
// it. Returns std::nullopt if it has not ended, or if this user may not see its status.
std::optional<base::ExitStatus> status_of_zombie(pid_t pid);

// Describes how the threads of a process, at most `most`, share the processors with other threads.
struct RunQueueSample {
  bool is_runnable = false;  // a thread runs now, or wants to run and gets no processor
  // This is how long all of them together have wanted to run and got no processor. The time of a thread that has got
  // none since is not included. It is std::nullopt if the kernel does not count it (CONFIG_SCHED_INFO).
  std::optional<std::chrono::nanoseconds> waited;
  // These count the work of threads that answer the launcher's own questions (PyTorch's worker server). It is no sign
  // of life, and these threads are not included above.
  std::uint64_t answering_ticks = 0;
  std::uint64_t answering_faults = 0;
};
RunQueueSample sample_run_queue(pid_t pid, std::size_t most);

// Returns whether the process itself handles this signal.
bool catches_signal(pid_t pid, int signal);

// Returns whether a thread blocks this signal.
bool blocks_signal(pid_t tid, int signal);

// Returns the process of the program itself if the worker is a wrapper around it (see is_wrapper()). As long as a
// wrapper has exactly one child, that child is examined next.
pid_t program_of(pid_t worker);

// Returns whether its executable is a Python interpreter.
bool is_python(pid_t pid);

struct HeldSocket {
  std::uint64_t inode = 0;
  pid_t holder = 0;

  friend bool operator==(const HeldSocket&, const HeldSocket&) = default;
};

// Returns the sockets of these processes, in their order, as far as they are found before `until`. Reads nothing of
// /proc that waits for a process's memory, such as its environment or command line. A process that hangs in a driver
// would make the launcher hang.
std::vector<HeldSocket> sockets_of(std::span<const pid_t> processes, std::chrono::steady_clock::time_point until);

// Returns the sockets of `root` and its descendants, `root` first.
std::vector<HeldSocket> sockets_of(pid_t root, std::chrono::steady_clock::time_point until);

// Returns the inode in "socket:[4711]", as the kernel shows the target of a descriptor. Returns std::nullopt for any
// other text.
std::optional<std::uint64_t> socket_of_link(std::string_view link);

}  // namespace ddp::launcher

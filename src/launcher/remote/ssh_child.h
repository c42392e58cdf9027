// SshChild: one ssh as a child of ours, with a pipe for each of its three streams.
#pragma once

#include <sys/types.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/exit_status.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "net/event_loop.h"

namespace ddp::launcher {

// Belongs to the event loop's thread. The child leads a session of its own, out of reach of the terminal's signals, and
// is asked to end (SIGTERM) when this process dies, however it does.
class SshChild {
 public:
  struct Callbacks {
    std::function<void(int stream, std::string_view bytes)> read;  // stream 0: its standard output, 1: its error
    std::function<bool(int stream)> may_read;                   // false: what it says waits in the pipe until resume()
    std::function<void(const base::ExitStatus& status)> ended;  // and all that it said has been read
  };

  // The failure is a sentence without a full stop.
  static base::Result<std::unique_ptr<SshChild>> start(net::EventLoop& loop, const std::vector<std::string>& command,
                                                       Callbacks callbacks);
  ~SshChild();  // kills it, if it still runs
  SshChild(const SshChild&) = delete;
  SshChild& operator=(const SshChild&) = delete;

  // Queued, and written as the child reads.
  void write_line(const std::string& line);
  // SIGTERM to its process group; SIGKILL after limits::kSshEnd.
  void end();
  // may_read() may say something else now.
  void resume();

 private:
  struct Stream {
    base::UniqueFd fd;
    std::unique_ptr<net::Watch> watch;  // destroyed before the descriptor
  };

  SshChild(net::EventLoop& loop, Callbacks callbacks) : loop_(loop), callbacks_(std::move(callbacks)) {}

  void arm(int stream);
  // False: nothing more is to be had for now.
  bool read_some(int stream);
  void write_some();
  void reap();
  void finish_if_read();
  void signal_group(int signal) const;

  net::EventLoop& loop_;
  Callbacks callbacks_;
  pid_t pid_ = -1;  // -1: reaped
  base::UniqueFd pidfd_;
  base::UniqueFd input_;
  std::array<Stream, 2> streams_;
  std::string unwritten_;
  base::ExitStatus status_ = base::ExitStatus::exited(0);
  std::unique_ptr<net::Watch> end_watch_;
  std::unique_ptr<net::Watch> writable_;
  std::unique_ptr<net::Watch> kill_;
};

}  // namespace ddp::launcher

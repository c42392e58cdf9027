// OutputPump: carries the workers' output from their pipes to the console and to files.
//
//   stream ─▶ file (raw)
//      └────▶ LineSplitter ─▶ filtered file
//                   └───────▶ LineCollapse ─▶ ConsoleLayout (LineTag) ─▶ Console (backlog)
//
// A worker never waits for the console for longer than limits::kConsoleStall (unless lossless), and the loop never for
// a worker, nor for the console but in drain() and before_own_line().
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "launcher/limits.h"
#include "launcher/output/console.h"
#include "launcher/output/line_collapse.h"
#include "launcher/output/line_tag.h"
#include "launcher/output/log_file.h"
#include "launcher/output/python_traceback.h"
#include "launcher/output/worker_stream.h"
#include "launcher/plan/output_plan.h"
#include "net/event_loop.h"

namespace ddp::launcher {

// A worker's ends of its streams, to become its descriptors 1 and 2; to be closed after the spawn, or the pump waits
// for them at the end.
struct WorkerStreams {
  base::UniqueFd out;
  base::UniqueFd err;
};

struct WorkerLabel {
  int local_rank = 0;
  int rank = 0;
};

// By path. Those that the plan does not ask for are not made. The filtered ones are of all workers together, as in
// torchrun: <attempt>/filtered_stdout.log.
struct WorkerFiles {
  std::string out;
  std::string err;
  std::string filtered_out;
  std::string filtered_err;
};

struct OutputContext {
  std::string node;
  std::string role;
  int console_out = 1;
  int console_err = 2;
  ConsoleBounds console;  // `lossless` is the plan's
};

// Belongs to the event loop's thread. SIGPIPE must be ignored. The callbacks may be set at any time and are called from
// within the other calls; they must not destroy the pump nor open workers.
// Lines of workers that the consoles did not show (those of a closed one do not count).
struct LostLines {
  std::int64_t all = 0;
  std::int64_t untold = 0;  // of them: the last drain could not tell their loss on the console
};

class OutputPump {
 public:
  OutputPump(net::EventLoop& loop, OutputPlan plan, OutputContext context);
  ~OutputPump();

  // The reader of our output has gone (EPIPE; EIO after a hang-up). Once. Files are written as before.
  std::function<void()> on_console_closed;
  // A sentence for the user: a file cannot be written any more, a console is gone for another reason.
  std::function<void(const std::string&)> on_notice;
  // Asked now and then while drain() waits for the console; true: it waits no more.
  std::function<bool()> interrupted;

  // The node's name in tags from now on; it may differ between attempts.
  void set_node(const std::string& node) { tag_.set_node(node); }

  // Before each spawn. A restart calls it again for the same rank; what is left of the earlier worker's output is then
  // read first, as far as it is there.
  base::Result<WorkerStreams> open(const WorkerLabel& label, const WorkerFiles& files);

  // After all workers are dead. Blocks until the end of their streams, or limits::kDrainQuiet without output (a
  // descendant may hold a pipe), or the limit; then everything that waits is written, as far as the console takes it.
  void drain(std::chrono::milliseconds limit = limits::kDrain);

  // The last lines of a worker, readable (see last_lines_of()): of its stderr, and before them, if these are few, of
  // its stdout; at most limits::kLastLines in all. Valid until the rank is opened again.
  std::vector<std::string> last_lines(int local_rank) const;
  // The exception that a Python program has printed to stderr as its last one. What is there is read first.
  std::optional<PythonError> printed_error(int local_rank);

  // For the launcher's own lines, which others write: what waits is shown, and an unfinished line or progress bar is
  // ended. Waits for the console for no longer than `most`.
  void before_own_line(std::chrono::milliseconds most = limits::kConsoleWait);

  // The workers' output goes elsewhere. `which` is kStdout or kStderr. See Console::redirect().
  void redirect(const std::function<std::optional<std::size_t>(int which, std::string_view bytes)>& take,
                const std::function<int()>& waits_for) {
    for (const auto& one : owned_outlets_) {
      const int which = one.get() == outlets_[kStdout] ? kStdout : kStderr;
      one->console->redirect({[take, which](std::string_view bytes) { return take(which, bytes); }, waits_for});
    }
  }
  // There is room again where it goes.
  void room_elsewhere() {
    for (const auto& one : owned_outlets_) one->console->flush();
  }
  // A line of another node's workers, with its end and its tag.
  void show_gathered(int which, std::string_view line);

  // After SIGWINCH.
  void copy_console_size();

  LostLines lost_lines() const;

  // What a worker has written so far, also straight to a file.
  std::uint64_t bytes_of(int local_rank) const {
    std::uint64_t bytes = 0;
    for (const auto& stream : streams_) {
      if (stream && stream->local_rank == local_rank) bytes += bytes_written(*stream);
    }
    return bytes;
  }

 private:
  class Turn;
  // A console with those who say things on it; both of our outputs may lead to one.
  struct Outlet {
    std::unique_ptr<Console> console;
    std::unique_ptr<LineCollapse> collapse;  // none: nothing to join
  };

  Outlet& outlet(int which) { return *outlets_[static_cast<std::size_t>(which)]; }
  LineFilter& filter(int which) { return filters_[static_cast<std::size_t>(which)]; }
  std::size_t share(std::size_t all, std::size_t most) const;
  std::size_t tag_columns(const WorkerStream& stream) const {
    return stream.plan.tagged ? tag_.plain(stream.local_rank).size() : 0;
  }
  void add_outlet(int fd);
  base::Result<base::UniqueFd> open_stream(const WorkerLabel& label, int which, const std::string& file);

  bool feeds_full_console(const WorkerStream& stream) const {
    return stream.plan.to_console && outlets_[static_cast<std::size_t>(stream.which)]->console->full();
  }
  void arm(WorkerStream& stream);
  void turn(WorkerStream& stream);
  // A stream's share of a turn.
  void read_what_is_there(WorkerStream& stream);
  void read_all();
  // Reads once, at most `most` bytes; 0: nothing there for now, or the end (then the stream is closed).
  std::size_t read_some(WorkerStream& stream, std::size_t most);
  void take(WorkerStream& stream, std::string_view chunk);
  void take_piece(WorkerStream& stream, const LinePiece& piece);
  void finish(WorkerStream& stream);

  void emit_all();
  void show_unfinished();
  void arm_collapse();
  void arm_unfinished();
  void room_again(const Console& console);
  void console_closed(int error);
  void notice(const std::string& text) {
    if (on_notice) on_notice(text);
  }

  // One step of drain(): waits until `until` at most; whether anything was read.
  bool drain_step(std::chrono::steady_clock::time_point until);

  net::EventLoop& loop_;
  OutputPlan plan_;
  OutputContext context_;
  LineTag tag_;
  std::vector<std::unique_ptr<Outlet>> owned_outlets_;
  std::array<Outlet*, 2> outlets_{};
  std::vector<std::unique_ptr<WorkerStream>> streams_;  // by 2 * local rank + (0 for stdout, 1 for stderr)
  std::array<LineFilter, 2> filters_;
  std::vector<char> buffer_;
  OutputTime now_;     // of the current turn
  bool busy_ = false;  // in a turn
  std::unique_ptr<net::Watch> collapse_timer_;
  std::unique_ptr<net::Watch> unfinished_timer_;
  bool told_closed_ = false;
};

}  // namespace ddp::launcher

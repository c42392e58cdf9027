// OutputPump carries the workers' output from their pipes to the console and to files.
//
//   stream ─▶ file (raw)
//      └────▶ LineSplitter ─▶ filtered file
//                   └───────▶ LineCollapse ─▶ ConsoleLayout (LineTag) ─▶ Console (backlog)
//
// A worker never waits for the console for longer than limits::kConsoleStall (unless lossless). The loop never waits
// for a worker. It waits for the console only in drain() and before_own_line().
#pragma once

#include <sys/stat.h>

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
#include "launcher/run/output/console.h"
#include "launcher/run/output/line_collapse.h"
#include "launcher/run/output/line_splitter.h"
#include "launcher/run/output/line_tag.h"
#include "launcher/run/output/log_file.h"
#include "launcher/run/output/python_traceback.h"
#include "launcher/run/output/stream_tail.h"
#include "launcher/start/plan/output_plan.h"
#include "net/event_loop.h"

namespace ddp::launcher {

inline constexpr int kStdout = 0;
inline constexpr int kStderr = 1;

// Holds what the pump knows about one stream of one worker.
struct WorkerStream {
  int id = 0;
  int local_rank = 0;
  int which = kStdout;
  StreamPlan plan;
  base::UniqueFd fd;      // empty if it is closed, or if the worker writes to its file directly
  bool terminal = false;  // whether the descriptor is a terminal
  bool waiting = false;   // waits for space on the console
  LogFile file;
  std::string direct_file;  // file to which the worker writes directly
  LineSplitter splitter;
  StreamTail tail{0};
  std::uint64_t bytes = 0;                     // number of bytes that were read from it
  bool filter_matches = false;                 // whether the current line matches the filter
  std::optional<OutputTime> unfinished_since;  // since when there is text that was not shown
  std::unique_ptr<net::Watch> watch;
};

// Returns how many bytes the worker has written so far, including bytes that go straight to its file.
inline std::uint64_t bytes_written(const WorkerStream& stream) {
  struct stat status {};
  const bool has_file = !stream.direct_file.empty() && ::stat(stream.direct_file.c_str(), &status) == 0;
  return stream.bytes + (has_file ? static_cast<std::uint64_t>(status.st_size) : 0);
}

struct StreamEnd {
  std::string text;
  bool is_cut = false;  // there was more before it
};

// Returns an empty value for a null pointer.
inline StreamEnd tail_of(const WorkerStream* stream) {
  if (stream == nullptr) return {};
  if (stream->direct_file.empty()) return {std::string(stream->tail.kept()), stream->tail.cut()};
  StreamEnd end;
  end.text = last_bytes_of_file(stream->direct_file, limits::kTailBytes, end.is_cut);
  return end;
}

// Holds the worker's ends of its streams, which become its descriptors 1 and 2. They must be closed after the spawn;
// otherwise the pump waits for them at the end.
struct WorkerStreams {
  base::UniqueFd out;
  base::UniqueFd err;
};

struct WorkerLabel {
  int local_rank = 0;
  int rank = 0;
};

// Holds paths. Files that the plan does not need are not created. The filtered files are for all workers together, as
// in torchrun: <attempt>/filtered_stdout.log.
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
  ConsoleBounds console;  // its `lossless` is taken from the plan
};

// Counts the workers' lines that the consoles did not show (lines for a closed console do not count).
struct LostLines {
  std::int64_t all = 0;
  std::int64_t untold = 0;  // part of them whose loss the last drain() could not report on the console
};

// Belongs to the event loop's thread. SIGPIPE must be ignored. The callbacks may be set at any time, and are called
// from within the other functions. They must not destroy the pump or open workers.
class OutputPump {
 public:
  OutputPump(net::EventLoop& loop, OutputPlan plan, OutputContext context);
  ~OutputPump();

  // Called once if the reader of the launcher's output has gone (EPIPE, or EIO after a hang-up). Files are still
  // written.
  std::function<void()> on_console_closed;
  // Called with a sentence for the user, if a file cannot be written anymore, or if a console is lost for another
  // reason.
  std::function<void(const std::string&)> on_notice;
  // Called with the bytes of a worker's stream (kStdout or kStderr) as they are read; null if nothing follows them.
  std::function<void(int local_rank, int which, std::string_view bytes)> on_bytes;
  // Called repeatedly while drain() waits for the console. If it returns true, the wait ends.
  std::function<bool()> interrupted;

  // Sets the node's name in tags from now on; it may differ between attempts.
  void set_node(const std::string& node) { tag_.set_node(node); }

  // Must be called before each spawn. If it is called again for the same rank after a restart, it first reads the
  // available rest of the earlier worker's output.
  base::Result<WorkerStreams> open(const WorkerLabel& label, const WorkerFiles& files);

  // Must be called after all workers are dead. Blocks until the end of their streams, until limits::kDrainQuiet without
  // output (a descendant may hold a pipe), or until `limit`. Then everything that waits is written, as far as the
  // console accepts it.
  void drain(std::chrono::milliseconds limit = limits::kDrain);

  // Returns the last lines of a worker in readable form (see last_lines_of()). They are lines of its stderr and, if
  // these are few, lines of its stdout before them. There are at most limits::kLastLines in all. Valid until the rank
  // is opened again.
  std::vector<std::string> last_lines(int local_rank) const;
  // Returns the file to which the worker writes this stream without the pump, or "" if the pump reads it.
  std::string direct_file(int local_rank, int which) const {
    const auto& stream = streams_[static_cast<std::size_t>(local_rank * 2 + which)];
    return stream ? stream->direct_file : "";
  }
  // Returns the last exception that a Python program has printed to stderr. The available output is read first.
  std::optional<PythonError> printed_error(int local_rank);

  // Must be called before the launcher's own lines, which other code writes. Shows the waiting output, and ends an
  // unfinished line or progress bar. Waits for the console for at most `most`. A call from within one of the callbacks
  // only erases the footer.
  void before_own_line(std::chrono::milliseconds most = limits::kConsoleWait);

  // Redirects the workers' output. `which` is kStdout or kStderr. See Console::redirect().
  void redirect(const std::function<std::optional<std::size_t>(int which, std::string_view bytes)>& take,
                const std::function<int()>& waits_for) {
    for (const auto& one : owned_outlets_) {
      const int which = one.get() == outlets_[kStdout] ? kStdout : kStderr;
      one->console->redirect({[take, which](std::string_view bytes) { return take(which, bytes); }, waits_for});
    }
  }
  // Must be called when redirected output is accepted again.
  void room_elsewhere() {
    for (const auto& one : owned_outlets_) one->console->flush();
  }
  // Shows a line of another node's workers, given with its end and its tag.
  void show_gathered(int which, std::string_view line);

  // Shows these lines below the output, if the launcher's standard error is a terminal. See Console::set_footer().
  void set_footer(std::vector<std::string> lines) {
    if (!is_footer_paused_) outlet(kStderr).console->set_footer(std::move(lines));
  }
  // Returns the size of the terminal that shows the footer, or std::nullopt if there is none.
  std::optional<TerminalSize> footer_size() const {
    const Console& console = *outlets_[kStderr]->console;
    return console.terminal() ? std::optional(console.size()) : std::nullopt;
  }
  // Erases the footer when the user stops the launcher (Ctrl-Z). After the launcher continues, set_footer() shows one
  // again.
  void pause_footer(bool is_paused) {
    if (is_paused) outlet(kStderr).console->set_footer({});
    is_footer_paused_ = is_paused;
  }

  // Must be called after SIGWINCH.
  void copy_console_size();

  LostLines lost_lines() const {
    LostLines lines;
    for (const auto& one : owned_outlets_) {
      lines.all += one->console->lost();
      lines.untold += one->console->untold();
    }
    return lines;
  }

  // Returns how many bytes a worker has written so far, including bytes that go straight to a file.
  std::uint64_t bytes_of(int local_rank) const {
    std::uint64_t bytes = 0;
    for (const int which : {kStdout, kStderr}) {
      const auto id = static_cast<std::size_t>(local_rank * 2 + which);
      if (id < streams_.size() && streams_[id]) bytes += bytes_written(*streams_[id]);
    }
    return bytes;
  }

 private:
  class Turn;
  // Outlet is a console with its LineCollapse. Both outputs of the launcher may use the same outlet.
  struct Outlet {
    std::unique_ptr<Console> console;
    std::unique_ptr<LineCollapse> collapse;  // null if there are no lines to join
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
  // Reads a stream's share of a turn.
  void read_what_is_there(WorkerStream& stream);
  void read_all();
  // Reads once, at most `most` bytes. Returns 0 if nothing is available for now, or at the end, when the stream is
  // closed.
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

  // Performs one step of drain(), and waits until `until` at most. Returns whether anything was read.
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
  OutputTime now_;     // time of the current turn
  bool busy_ = false;  // set during a turn
  std::unique_ptr<net::Watch> collapse_timer_;
  std::unique_ptr<net::Watch> unfinished_timer_;
  bool reported_closed_ = false;
  bool is_footer_paused_ = false;
};

}  // namespace ddp::launcher

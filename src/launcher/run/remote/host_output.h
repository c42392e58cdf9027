// HostOutput shows the output of the hosts' launchers on this process's two outputs. Lines are whole and unchanged,
// except for lines of ddplaunch and ssh themselves. These get the name of their host, and the same line of several
// hosts is shown once.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/run/output/console.h"
#include "launcher/run/output/line_collapse.h"
#include "launcher/run/output/line_splitter.h"
#include "launcher/run/output/line_tag.h"
#include "launcher/run/remote/host_plan.h"
#include "launcher/run/remote/launch_request.h"
#include "net/event_loop.h"

namespace ddp::launcher {

class HostOutput {
 public:
  HostOutput(net::EventLoop& loop, const HostPlan& plan, int console_out = 1, int console_err = 2);

  std::function<void(std::size_t host, const LaunchReply& reply)> on_reply;
  std::function<void()> on_room;    // may_take() may return another value now
  std::function<void()> on_closed;  // the reader of an output has gone

  // Returns whether there is space for more of this stream (0 or 1).
  bool may_take(int stream) const { return !console(stream).full(); }
  void take(std::size_t host, int stream, std::string_view bytes);
  // Ends both streams of a host.
  void finish(std::size_t host);

  // Must be called before one of this launcher's own lines on standard error. Waits for the console for at most `most`.
  void before_own_line(std::chrono::milliseconds most = limits::kConsoleWait);
  // Writes what is left, as long as the consoles accept it.
  void end(const std::function<bool()>& interrupted);

 private:
  struct Host {
    std::string name;
    bool ready = false;   // its launcher has replied; earlier output is from ssh or a shell
    int early_lines = 0;  // number of lines before that
    std::size_t early_bytes = 0;
    bool is_cut = false;  // further early lines are not shown
    LineSplitter out;
    LineSplitter err;
  };

  Console& console(int stream) const { return stream == 0 ? *consoles_.front() : *consoles_.back(); }
  void show(std::size_t host, int stream, const LinePiece& piece);
  void show_piece(std::size_t host, int stream, const LinePiece& piece);
  void show_early(std::size_t host, int id, const LinePiece& piece);
  void show_named(const OutputLine& line);
  std::string names_of(const OutputLine& line) const;
  void arm();
  void flush();

  std::string mark_;
  net::EventLoop& loop_;
  LineTag no_tag_;
  std::vector<Host> hosts_;
  std::vector<std::unique_ptr<Console>> consoles_;  // one if both outputs are one
  LineCollapse named_;                              // joins the lines that several hosts print
  std::unique_ptr<net::Watch> timer_;
};

}  // namespace ddp::launcher

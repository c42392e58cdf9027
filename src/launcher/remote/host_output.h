// HostOutput: what the hosts' launchers say, on our own two outputs: whole lines, as they are, but for lines of
// ddplaunch and ssh themselves, which get the name of their host; the same one of several hosts is
// shown once.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/output/console.h"
#include "launcher/output/line_collapse.h"
#include "launcher/output/line_splitter.h"
#include "launcher/output/line_tag.h"
#include "launcher/remote/host_plan.h"
#include "launcher/remote/launch_request.h"
#include "net/event_loop.h"

namespace ddp::launcher {

class HostOutput {
 public:
  HostOutput(net::EventLoop& loop, const HostPlan& plan, int console_out = 1, int console_err = 2);

  std::function<void(std::size_t host, const LaunchReply& reply)> on_reply;
  std::function<void()> on_room;    // may_take() may say something else now
  std::function<void()> on_closed;  // nobody reads us any more

  // Whether there is room for more of this stream (0 or 1).
  bool may_take(int stream) const { return !console(stream).full(); }
  void take(std::size_t host, int stream, std::string_view bytes);
  // The end of both streams.
  void finish(std::size_t host);

  // Before a line of our own on the standard error. Waits for the console for no longer than `most`.
  void before_own_line(std::chrono::milliseconds most = limits::kConsoleWait);
  // Writes what is left, as long as the consoles take it.
  void end(const std::function<bool()>& interrupted);

 private:
  struct Host {
    std::string name;
    bool ready = false;   // its launcher speaks, and not ssh or a shell
    int early_lines = 0;  // before that
    std::size_t early_bytes = 0;
    bool is_cut = false;  // more of them are not shown
    LineSplitter out;
    LineSplitter err;
  };

  Console& console(int stream) const { return *(stream == 1 && err_ ? err_ : out_); }
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
  std::unique_ptr<Console> out_;
  std::unique_ptr<Console> err_;  // none: both are one
  LineCollapse named_;            // all hosts say much the same
  std::unique_ptr<net::Watch> timer_;
};

}  // namespace ddp::launcher

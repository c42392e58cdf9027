// TopScreen shows a job on the whole terminal, and obeys the keys.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "launcher/see/top/frame_writer.h"
#include "launcher/see/top/keys.h"
#include "launcher/see/top/terminal.h"
#include "launcher/see/top/top_state.h"
#include "launcher/see/top/view_client.h"
#include "net/event_loop.h"

namespace ddp::launcher {

// Belongs to the event loop's thread.
class TopScreen {
 public:
  enum class End { quit, job_ended, refused, terminal_lost };

  struct Options {
    TopView view;
    FrameStyle style;
    std::chrono::milliseconds interval;
  };

  // `fd` is a connection to a launcher.
  TopScreen(net::EventLoop& loop, base::UniqueFd fd, std::unique_ptr<Terminal> terminal, Options options);

  // Runs until the user quits, or nothing can be shown any more. The destructor restores the terminal.
  End run();
  // Returns why the launcher shows nothing, after an end that the launcher caused before its first snapshot.
  const std::string& refusal() const { return refusal_; }

 private:
  void tick();
  void take(const ViewAnswer& answer);
  void read_keys();
  void press_all(const std::vector<Key>& keys);
  void obey(TopEffect effect);
  void signal(int number);
  void redraw();
  void draw();
  void end(End how);

  net::EventLoop& loop_;
  const FrameStyle style_;
  const std::chrono::milliseconds interval_;
  std::unique_ptr<Terminal> terminal_;
  FrameWriter writer_;
  ViewClient client_;
  TopState state_;
  KeyReader keys_;
  bool waits_for_snapshot_ = false;
  std::chrono::steady_clock::time_point asked_;
  bool has_snapshot_ = false;
  std::string refusal_ = "the launcher closed the connection";
  std::chrono::steady_clock::time_point snapshot_taken_;
  End end_ = End::quit;
  std::unique_ptr<net::Watch> signals_;
  std::unique_ptr<net::Watch> keyboard_;
  std::unique_ptr<net::Watch> timer_;
  std::unique_ptr<net::Watch> escape_;
};

}  // namespace ddp::launcher

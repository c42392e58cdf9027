// ControllerLink is, on a host, the connection to the launcher that started this one. It uses standard input, as long
// as that launcher and the connection to it exist.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "launcher/run/remote/launch_request.h"
#include "net/event_loop.h"

namespace ddp::launcher {

class ControllerLink {
 public:
  // Takes over standard input, so that processes that are started from here read nothing.
  static base::Result<std::unique_ptr<ControllerLink>> take_over_standard_input();
  explicit ControllerLink(base::UniqueFd fd) : fd_(std::move(fd)) {}

  // Waits for the launch request.
  base::Result<LaunchRequest> wait_for_request();
  // Waits until all hosts are ready. Returns false if the job does not begin.
  bool wait_for_start();

  // After that, the event loop calls `signal` for each signal to the job, and `lost` once, at the end of the
  // connection.
  struct Callbacks {
    std::function<void(int signal)> signal;
    std::function<void()> lost;
  };
  void watch(net::EventLoop& loop, Callbacks callbacks);

 private:
  std::optional<std::string> wait_for_line();
  std::optional<std::string> next_line();
  bool read_some();  // returns false if there is no more

  base::UniqueFd fd_;
  std::string unread_;
  std::unique_ptr<net::Watch> watch_;  // destroyed before the descriptor
};

// Replies over standard output.
void reply(const LaunchRequest& request, const LaunchReply& reply);

// Changes into the launch request's directory and sets its variables, including the token. The failure is a sentence
// for the user.
std::optional<base::Failure> carry_out(const LaunchRequest& request);

}  // namespace ddp::launcher

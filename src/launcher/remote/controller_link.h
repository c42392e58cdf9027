// ControllerLink: on a host, the line to the launcher that started this one. It comes over the standard input, as long
// as that launcher and the connection to it live.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "launcher/remote/launch_request.h"
#include "net/event_loop.h"

namespace ddp::launcher {

class ControllerLink {
 public:
  // Takes the standard input over: what is started from here reads nothing.
  static base::Result<std::unique_ptr<ControllerLink>> take_over_standard_input();
  explicit ControllerLink(base::UniqueFd fd) : fd_(std::move(fd)) {}

  // Waits for the launch request.
  base::Result<LaunchRequest> wait_for_request();
  // Waits until all hosts are ready; false: the job does not begin.
  bool wait_for_start();

  // From then on, within the event loop: a signal for the job, and the end of the connection, once.
  struct Callbacks {
    std::function<void(int signal)> signal;
    std::function<void()> lost;
  };
  void watch(net::EventLoop& loop, Callbacks callbacks);

 private:
  std::optional<std::string> wait_for_line();
  std::optional<std::string> next_line();
  bool read_some();  // false: there is no more

  base::UniqueFd fd_;
  std::string unread_;
  std::unique_ptr<net::Watch> watch_;  // destroyed before the descriptor
};

// Replies over the standard output.
void reply(const LaunchRequest& request, const LaunchReply& reply);

// Changes into the launch request's directory and sets its variables, the token among them. The failure is a sentence
// for the user.
std::optional<base::Failure> carry_out(const LaunchRequest& request);

}  // namespace ddp::launcher

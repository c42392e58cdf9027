// OutputFollowers passes the workers' lines on to views that follow a rank.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "launcher/run/output/output_pump.h"
#include "net/event_loop.h"

namespace ddp::launcher {

// Belongs to the event loop's thread. The pump must outlive this object, and what follow() returns may outlive it.
class OutputFollowers {
 public:
  using Sink = std::function<void(std::string_view line)>;

  OutputFollowers(net::EventLoop& loop, OutputPump& pump);
  ~OutputFollowers();
  OutputFollowers(const OutputFollowers&) = delete;
  OutputFollowers& operator=(const OutputFollowers&) = delete;

  // Calls `sink` with the last lines of a worker, and then with each line that it ends, until the returned watch is
  // destroyed. Lines are in readable form (see last_lines_of()). A stream that goes straight to a file is read from the
  // file, twice per second.
  std::unique_ptr<net::Watch> follow(int local_rank, Sink sink);

 private:
  struct Follower;

  void take(int local_rank, int which, std::string_view bytes);
  void read_files();
  void arm();

  net::EventLoop& loop_;
  OutputPump& pump_;
  std::vector<std::weak_ptr<Follower>> followers_;
  std::unique_ptr<net::Watch> timer_;
};

}  // namespace ddp::launcher

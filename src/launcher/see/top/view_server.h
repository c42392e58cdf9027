// ViewServer shows a running job to views in other processes of the same user, over a Unix socket.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/see/top/view_socket.h"
#include "launcher/see/view/job_snapshot.h"
#include "net/event_loop.h"

namespace ddp::launcher {

// Belongs to the event loop's thread, and never blocks it. A client that sends garbage gets an error. A client that
// reads nothing for limits::kViewPatience is dropped.
//
//   ViewServer server(loop, listen_in(socket_folders(environment), pid).value(), {…});
class ViewServer {
 public:
  using Reply = std::function<void(const std::vector<std::string>& lines)>;
  using Sink = std::function<void(std::string_view line)>;

  // The server calls these from the event loop.
  struct Job {
    std::function<JobSnapshot()> snapshot;
    // Takes the stacks of a rank, and calls `reply` once, now or later. It may call it after the server's end.
    std::function<void(int rank, Reply reply)> stacks;
    // Calls `sink` with the last lines of a rank's output and with each new line, until the returned watch is
    // destroyed. Returns null if the output of this rank is not on this node.
    std::function<std::unique_ptr<net::Watch>(int rank, Sink sink)> follow;
  };

  // The socket is one of listen_in().
  ViewServer(net::EventLoop& loop, ListeningSocket socket, Job job);
  // Removes the socket and closes all connections.
  ~ViewServer();
  ViewServer(const ViewServer&) = delete;
  ViewServer& operator=(const ViewServer&) = delete;

  const std::string& path() const { return socket_.path; }
  // Returns whether a view needs fresh samples.
  bool has_clients() const;

 private:
  class Client;

  void arm();
  void accept();
  void sweep_soon();
  const std::string& snapshot_text();

  net::EventLoop& loop_;
  ListeningSocket socket_;
  const Job job_;
  std::vector<std::shared_ptr<Client>> clients_;
  std::unique_ptr<net::Watch> readable_;
  std::unique_ptr<net::Watch> retry_;
  std::unique_ptr<net::Watch> sweep_;
  std::string snapshot_text_;  // the line that clients share for limits::kViewSnapshotAge
  std::optional<std::chrono::steady_clock::time_point> snapshot_taken_;
};

}  // namespace ddp::launcher

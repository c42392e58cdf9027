// ServedClient: the bytes of one client of the store, in and out.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/unique_fd.h"
#include "store/server/store_limits.h"
#include "store/server/store_waiters.h"
#include "wire/store_parser.h"

namespace ddp::store {

// Its socket is non-blocking. Not thread-safe.
class ServedClient {
 public:
  ServedClient(ConnectionId id, base::UniqueFd socket, std::string peer, const wire::StoreRequestLimits& limits,
               TimePoint now);

  // Reads what there is, up to the size of `scratch`, and gives it to the parser.
  enum class Input { open, closed, timed_out };
  Input receive(std::span<char> scratch);

  wire::StoreRequestParser& parser() { return parser_; }

  // Keeps `bytes` for flush().
  void send(std::string_view bytes);
  // Nothing more is said or heard. The client reads what there is until then, and leaves: to close at once would reset
  // the connection when it says one thing more, and take back what is under way.
  void say_no_more() { is_closing_ = true; }
  bool is_closing() const { return is_closing_; }
  // Gives the kernel what it takes. False: the client has left.
  bool flush();

  // What the client has not read yet: with much of it, no further request is carried out.
  std::size_t unsent() const { return output_.size() - sent_; }
  bool is_full() const { return unsent() > limits::kStorePauseBytes; }

  // Memory beyond what an idle connection has.
  std::size_t held_bytes() const;

  int fd() const { return socket_.get(); }
  ConnectionId id() const { return id_; }
  const std::string& peer() const { return peer_; }
  TimePoint connected_since() const { return since_; }

  // For the server: what it has counted of held_bytes(), asked of epoll, and how often it has looked for the rank.
  std::size_t counted_bytes = 0;
  std::uint32_t interest = 0;
  int rank_searches = 0;
  bool is_launcher = false;  // it has said CONTROL

 private:
  const ConnectionId id_;
  base::UniqueFd socket_;
  const std::string peer_;
  const TimePoint since_;
  wire::StoreRequestParser parser_;
  std::string output_;
  std::size_t sent_ = 0;
  bool is_closing_ = false;
};

}  // namespace ddp::store

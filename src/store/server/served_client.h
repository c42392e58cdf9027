// ServedClient holds the input and output bytes of one client of the store. A search finds the ranks of the clients
// that do not send their rank, such as PyTorch's, by the sockets that ranks hold.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/unique_fd.h"
#include "store/server/store_limits.h"
#include "store/server/store_ranks.h"
#include "store/server/store_waiters.h"
#include "wire/store_parser.h"

namespace ddp::store {

class Gatekeeper;
class StoreTable;

// Its socket is non-blocking. It is not thread-safe.
class ServedClient {
 public:
  ServedClient(ConnectionId id, base::UniqueFd socket, std::string peer, const wire::StoreRequestLimits& limits,
               TimePoint now);

  // Reads the available bytes, up to the size of `scratch`, and passes them to the parser.
  enum class Input { open, closed, reset, timed_out };
  Input receive(std::span<char> scratch);

  wire::StoreRequestParser& parser() { return parser_; }

  // Keeps `bytes` for flush().
  void send(std::string_view bytes);
  // Stops the conversation. The client can still read what was sent, and then disconnects. Closing at once would reset
  // the connection if the client sent anything more, and lose data in transit.
  void say_no_more() { is_closing_ = true; }
  bool is_closing() const { return is_closing_; }
  // Passes output to the kernel as far as it accepts it. Returns false if the client has disconnected.
  bool flush();

  // Returns the number of bytes that the client has not read. If it is large, no further request is carried out.
  std::size_t unsent() const { return output_.size() - sent_; }
  bool is_full() const { return unsent() > limits::kStorePauseBytes; }

  // Returns the memory beyond that of an idle connection.
  std::size_t held_bytes() const;

  int fd() const { return socket_.get(); }
  ConnectionId id() const { return id_; }
  const std::string& peer() const { return peer_; }
  TimePoint connected_since() const { return since_; }

  // The server uses these members: the counted part of held_bytes(), the events requested from epoll, and the number of
  // searches for the rank.
  std::size_t counted_bytes = 0;
  std::uint32_t interest = 0;
  int rank_searches = 0;
  bool is_launcher = false;  // it has sent CONTROL

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

using Clients = std::unordered_map<ConnectionId, std::unique_ptr<ServedClient>>;

std::vector<const ServedClient*> all_of(const Clients& clients);

// Adds the ranks that are found to the table. Each client is searched for at most limits::kStoreNamingTries times.
void introduce_ranks(Clients& clients, Gatekeeper& gatekeeper,
                     const std::function<std::vector<RankedSocket>()>& sockets, StoreTable& table);

}  // namespace ddp::store

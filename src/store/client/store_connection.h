// StoreConnection is a socket on which a store server has answered, with facts about that server.
#pragma once

#include <ddp/store.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "net/socket.h"
#include "wire/store_message.h"

namespace ddp::store {

// A StoreConnection throws this. It is unusable afterwards, because the position in the stream is unknown.
struct ConnectionLost {
  net::SocketFailure failure;
};

struct ServerFacts {
  wire::StoreDialect dialect = wire::StoreDialect::current;
  bool ours = false;    // it is ddplaunch's server and supports its extensions
  std::int64_t id = 0;  // identifies this run of ddplaunch's server, if the client sent its rank; else 0

  friend bool operator==(const ServerFacts&, const ServerFacts&) = default;
};

// It is not thread-safe. send() and receive() throw ConnectionLost.
class StoreConnection {
 public:
  // Retries, with growing pauses, until a store answers. Throws `unavailable` at the deadline. The message contains the
  // error of the last attempt. A server that `has_run` and now refuses connections has ended and never comes back, so
  // the function then throws at once.
  static std::unique_ptr<StoreConnection> connect(const TcpStoreOptions& options, net::Deadline until,
                                                  bool has_run = false);

  const ServerFacts& server() const { return server_; }

  void send(std::span<const char> bytes, net::Deadline until);

  template <typename Integer>
  Integer receive(net::Deadline until) {
    Integer value{};
    receive_into(std::span(reinterpret_cast<char*>(&value), sizeof value), until);
    return value;
  }
  std::string receive_bytes(net::Deadline until);

 private:
  explicit StoreConnection(base::UniqueFd fd) : fd_(std::move(fd)) {}

  // Returns a connection, or the reason why there is none.
  static base::Result<std::unique_ptr<StoreConnection>, net::SocketFailure> try_once(const TcpStoreOptions& options,
                                                                                     net::Deadline until);
  void greet(const TcpStoreOptions& options, net::Deadline until);
  void receive_into(std::span<char> bytes, net::Deadline until);

  base::UniqueFd fd_;
  ServerFacts server_;
  // Holds received bytes that were not requested yet, mostly the rest of a reply.
  std::array<char, 4096> input_{};
  std::size_t input_begin_ = 0;
  std::size_t input_end_ = 0;
};

}  // namespace ddp::store

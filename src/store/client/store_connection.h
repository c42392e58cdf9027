// StoreConnection: a socket on which a store server has answered, and what that server is.
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

// Thrown by a StoreConnection, which is of no use afterwards: where the stream stands is unknown.
struct ConnectionLost {
  net::SocketFailure failure;
};

struct ServerFacts {
  wire::StoreDialect dialect = wire::StoreDialect::current;
  bool ours = false;    // it knows our own requests
  std::int64_t id = 0;  // of this run of our server, if it was told our rank; else 0

  friend bool operator==(const ServerFacts&, const ServerFacts&) = default;
};

// Not thread-safe. send() and receive() throw ConnectionLost.
class StoreConnection {
 public:
  // Tries again, with growing pauses, until a store answers. Throws `unavailable` at the deadline; the message says
  // what the last try met.
  static std::unique_ptr<StoreConnection> connect(const TcpStoreOptions& options, net::Deadline until);

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

  // Else the reason.
  static base::Result<std::unique_ptr<StoreConnection>, std::string> try_once(const TcpStoreOptions& options,
                                                                              net::Deadline until);
  void greet(const TcpStoreOptions& options, net::Deadline until);
  void receive_into(std::span<char> bytes, net::Deadline until);

  base::UniqueFd fd_;
  ServerFacts server_;
  // What came beyond what was asked for: mostly the rest of a reply.
  std::array<char, 4096> input_{};
  std::size_t input_begin_ = 0;
  std::size_t input_end_ = 0;
};

}  // namespace ddp::store

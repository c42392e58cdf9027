// StoreSession: a client's connection to its server as long as the client lives: lost, found again where that is safe,
// and what to tell when it is not.
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "store/client/store_connection.h"
#include "store/limits.h"

namespace ddp::store {

// Not thread-safe. All functions throw Error; those that talk (send to receive_values) throw ConnectionLost as well and
// belong inside of read() or once().
class StoreSession {
 public:
  using Requests = std::initializer_list<wire::StoreRequest>;

  // `same_as`: what the server must be; null: anything.
  explicit StoreSession(const TcpStoreOptions& options, const ServerFacts* same_as = nullptr);

  const ServerFacts& server() const { return server_; }
  const std::string& where() const { return where_; }
  net::Deadline deadline() const { return std::chrono::steady_clock::now() + options_.timeout; }

  // `talk` only reads: it is repeated on a new connection if the server is the same.
  template <typename Talk>
  auto read(net::Deadline until, Talk&& talk) {
    for (int repeats = limits::kStoreRepeats;; --repeats) {
      connect_again(until);
      try {
        auto result = talk(until);
        unconfirmed_.reset();
        return result;
      } catch (const ConnectionLost& lost) {
        const bool timed_out = lost.failure.kind == net::SocketFailure::Kind::timed_out;
        const bool hopeless = server_.id == 0 || timed_out || repeats == 0 || unconfirmed_.has_value();
        connection_.reset();
        if (hopeless) fail(lost.failure, "");
      }
    }
  }

  // `talk` must not be carried out twice; `op` and `key` tell what it is.
  template <typename Talk>
  auto once(wire::StoreOp op, const std::string& key, net::Deadline until, Talk&& talk) {
    connect_again(until);
    try {
      auto result = talk(until);
      unconfirmed_.reset();
      return result;
    } catch (const ConnectionLost& lost) {
      connection_.reset();
      fail(lost.failure, name(op, key));
    }
  }

  // Every write so far was carried out.
  bool all_confirmed() const { return !unconfirmed_; }
  // A later request was answered.
  void confirm() { unconfirmed_.reset(); }
  // False once the connection to a server is lost to which there is no way back.
  bool usable() const { return connection_ != nullptr || closed_by_us_ || server_.id != 0; }
  // A request that is not answered: that it was carried out shows when a later one is.
  void write(const wire::StoreRequest& request);

  void send(Requests requests, net::Deadline until);
  // Returns when WAIT or BARRIER (`op`), which was the last request, is answered; cancels it at the deadline and throws
  // `timeout`.
  void await_keys(wire::StoreOp op, std::span<const std::string> keys, std::chrono::milliseconds timeout,
                  net::Deadline until);
  template <typename Integer>
  Integer receive(net::Deadline until) {
    return connection_->receive<Integer>(until);
  }
  std::string receive_bytes(net::Deadline until) { return connection_->receive_bytes(until); }

 private:
  void connect_again(net::Deadline until);
  void require_same(const ServerFacts& server) const;
  // True if the last key came in the last moment: that is answered before the cancellation is.
  bool cancel_wait();
  // Those of the first thousand keys that do not exist now; all of these if they came in the meantime.
  std::vector<std::string> absent(std::span<const std::string> keys);
  std::string explain(std::span<const std::string> keys);
  // "ADD of key 'k'".
  static std::string name(wire::StoreOp op, const std::string& key);
  // `what`: the request that may or may not have been carried out, if it matters.
  [[noreturn]] void fail(const net::SocketFailure& failure, const std::string& what);

  const TcpStoreOptions options_;
  const std::string where_;
  std::unique_ptr<StoreConnection> connection_;
  const ServerFacts server_;
  bool closed_by_us_ = false;
  // The last request that is not answered and was followed by none that is.
  std::optional<wire::StoreOp> unconfirmed_;
  std::string unconfirmed_key_;
};

}  // namespace ddp::store

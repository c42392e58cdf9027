// StoreSession is a client's connection to its server for the lifetime of the client. It reconnects if that is safe,
// and otherwise describes the failure.
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "store/client/store_connection.h"
#include "store/limits.h"
#include "wire/store_message.h"

namespace ddp::store {

// The following functions make a client's requests about keys.

// PyTorch's clients put a slash before every key. This client does the same, so that both see the same keys.
inline std::string wire_key(const std::string& key) {
  return "/" + key;
}

inline wire::StoreRequest bare(wire::StoreOp op) {
  return {.op = op, .keys = {}, .values = {}};
}
inline wire::StoreRequest about(wire::StoreOp op, const std::string& key, std::vector<std::string> values = {},
                                std::int64_t delta = 0) {
  return {.op = op, .keys = {wire_key(key)}, .values = std::move(values), .delta = delta};
}
inline wire::StoreRequest about(wire::StoreOp op, std::span<const std::string> keys) {
  wire::StoreRequest request = bare(op);
  for (const std::string& key : keys) request.keys.push_back(wire_key(key));
  return request;
}

// Holds rank lists from the server's EXPLAIN: "0, 2-5", or "" for none.
struct WaitReport {
  std::string waiting;    // ranks that wait for one of the keys, or stopped waiting for it
  std::string elsewhere;  // ranks that are connected but do not wait for them
  std::string never;      // ranks that have not connected yet
};

// Returns text such as "Ranks 0, 2 wait for it too; rank 1 is connected but does not; rank 3 has not arrived." It omits
// `own`. The text is empty if the report names no other rank.
std::string describe(const WaitReport& report, std::optional<int> own);

// It is not thread-safe. All functions throw Error. Those that communicate (send to receive_values) also throw
// ConnectionLost, so call them only inside read() or once().
class StoreSession {
 public:
  using Requests = std::initializer_list<wire::StoreRequest>;

  // If `same_as` is not null, the server must be this one.
  explicit StoreSession(const TcpStoreOptions& options, const ServerFacts* same_as = nullptr);

  const ServerFacts& server() const { return server_; }
  const std::string& where() const { return where_; }
  net::Deadline deadline() const { return std::chrono::steady_clock::now() + options_.timeout; }

  // `talk` must only read: it is repeated on a new connection if the server is the same.
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

  // `talk` is not repeated. `op` and `key` name it in messages.
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

  // Returns whether every write so far was carried out.
  bool all_confirmed() const { return !unconfirmed_; }
  // Records that a later request was answered.
  void confirm() { unconfirmed_.reset(); }
  // Returns false once the connection is lost and the session cannot reconnect.
  bool usable() const { return connection_ != nullptr || closed_by_us_ || server_.id != 0; }
  // Sends a request that the server does not answer. The answer to a later request confirms it.
  void write(const wire::StoreRequest& request);

  void send(Requests requests, net::Deadline until);
  // Returns when the last request, WAIT or BARRIER (`op`), is answered. Cancels it at the deadline and throws
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
  // Returns true if the last key arrived at the last moment: the server then answers the wait before the cancellation.
  bool cancel_wait();
  // Returns those of the first thousand keys that do not exist now, or all of these if they have arrived in the
  // meantime.
  std::vector<std::string> absent(std::span<const std::string> keys);
  std::string explain(std::span<const std::string> keys);
  // Returns text such as "ADD of key 'k'".
  static std::string name(wire::StoreOp op, const std::string& key);
  // `what` names the request that may or may not have been carried out; it is empty if that does not matter.
  [[noreturn]] void fail(const net::SocketFailure& failure, const std::string& what);

  const TcpStoreOptions options_;
  const std::string where_;
  std::unique_ptr<StoreConnection> connection_;
  const ServerFacts server_;
  bool closed_by_us_ = false;
  // Holds the last request without an answer, if no later request was answered.
  std::optional<wire::StoreOp> unconfirmed_;
  std::string unconfirmed_key_;
};

}  // namespace ddp::store

// StoreServer: the rendezvous store behind a TCP port. One epoll instance, no thread, no library: it is driven by the
// launcher's event loop, by `ddplaunch store`, or by a thread in rank 0 of a program that has no launcher.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "store/handshake.h"
#include "store/limits.h"
#include "store/server/store_limits.h"
#include "store/server/store_ranks.h"
#include "store/server/store_waiters.h"
#include "wire/store_report.h"

namespace ddp::store {

struct StoreServerOptions {
  StoreLimits limits;
  // Who is let in, but for processes of our own user and root: everybody, or whoever proves to know the token (and then
  // all of the same address). docs/explanation/security.md.
  bool open = false;
  bool open_to_machines = false;
  std::shared_ptr<const Authenticator> authenticator;
  // A client that reads nothing of what waits for it within this loses the connection. The kernel looks now and then.
  std::chrono::milliseconds unread_time = limits::kStoreUnreadTime;
  // Between two requests of a conversation, serve() looks for the next one so long before it returns.
  std::chrono::microseconds awake = limits::kStoreAwake;
  // A connection was refused, or closed because it broke a rule: the peer and the rule.
  std::function<void(const std::string& peer, const std::string& reason)> on_rejection;
  // The sockets of this machine's ranks, for the names of clients that do not tell theirs, as PyTorch's.
  std::function<std::vector<RankedSocket>()> ranked_sockets;
  // A launcher of another node has said something, by CONTROL, or has gone. Empty: nobody listens to launchers here.
  std::function<void(ConnectionId from, const std::string& peer, const std::string& message)> on_control;
  std::function<void(ConnectionId from)> on_control_lost;
  // A sentence about a client that gave up a wait of at least limits::kStoreToldWait, or left in the middle of it.
  std::function<void(const std::string& text)> on_given_up;
};

// Not thread-safe.
class StoreServer {
 public:
  // Binds and listens at once; `port` 0 lets the kernel choose. The port is held until destruction.
  static base::Result<std::unique_ptr<StoreServer>> listen(const std::string& address, std::uint16_t port,
                                                           StoreServerOptions options);

  virtual ~StoreServer() = default;

  virtual std::uint16_t port() const = 0;
  // Where it listens, as a number: "10.0.0.1", "::".
  virtual std::string address() const = 0;

  // What the user ought to know of the openness of this server, if anything.
  virtual std::optional<std::string> warning() const = 0;

  // Can be read (poll, epoll) when serve() has something to do.
  virtual int fd() const = 0;
  // Does a bounded part of what is due now. Never sleeps; stays for at most limits::kStoreTurn and one request of each
  // client, because whoever asks one thing after the other waits longer for a server to wake up than for its answer.
  virtual void serve() = 0;

  // Serves one more client that is connected already, unchecked. For tests.
  virtual void add_client(base::UniqueFd socket, const std::string& name) = 0;

  // To a launcher that has said something and has not gone. It hears it as soon as it can be sent.
  virtual void send_control(ConnectionId to, std::string_view message) = 0;
  // Says and hears nothing more; when the launcher has read what was sent, and closes the connection, it is lost.
  virtual void close_control(ConnectionId to) = 0;

  // Forgets all keys and closes all connections but those of launchers: another attempt begins.
  virtual void forget_all() = 0;

  virtual wire::StoreReport report() const = 0;
};

}  // namespace ddp::store

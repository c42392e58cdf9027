// StoreServer is the rendezvous store behind a TCP port. It uses one epoll instance, no thread and no library. It is
// driven by the launcher's event loop, by `ddplaunch store`, or by a thread in rank 0 of a program without a launcher.
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
  // These members decide which clients are admitted besides processes of this user and root. Either all are, or those
  // from an address at which a client has proved the token. See docs/explanation/security.md.
  bool open = false;
  bool open_to_machines = false;
  std::shared_ptr<const Authenticator> authenticator;
  // A client that does not read its replies within this time loses its connection. The kernel checks this periodically.
  std::chrono::milliseconds unread_time = limits::kStoreUnreadTime;
  // Between two requests of a conversation, serve() polls this long for the next one before it returns.
  std::chrono::microseconds awake = limits::kStoreAwake;
  // Called with the peer and the reason when a connection was refused, or closed because it broke a rule.
  std::function<void(const std::string& peer, const std::string& reason)> on_rejection;
  // Returns the sockets of this node's ranks, to identify clients that do not send their rank, such as PyTorch's.
  std::function<std::vector<RankedSocket>()> ranked_sockets;
  // Called when a launcher of another node has sent a message by CONTROL, or has disconnected. `in_order` means that
  // the launcher has closed the connection. If on_control is empty, the server accepts no launchers.
  std::function<void(ConnectionId from, const std::string& peer, const std::string& message)> on_control;
  std::function<void(ConnectionId from, bool in_order)> on_control_lost;
  // Called with a sentence about a client that stopped waiting after at least limits::kStoreReportedWait, or
  // disconnected during such a wait.
  std::function<void(const std::string& text)> on_given_up;
};

// It is not thread-safe.
class StoreServer {
 public:
  // Binds and listens at once; `port` 0 lets the kernel choose. The port is held until destruction.
  static base::Result<std::unique_ptr<StoreServer>> listen(const std::string& address, std::uint16_t port,
                                                           StoreServerOptions options);
  // Serves at a socket that listens already. Clients may have connected to it.
  static base::Result<std::unique_ptr<StoreServer>> serve_at(base::UniqueFd listener, StoreServerOptions options);

  virtual ~StoreServer() = default;

  virtual std::uint16_t port() const = 0;
  // Returns the numeric address on which it listens: "10.0.0.1", "::".
  virtual std::string address() const = 0;

  // Returns a warning for the user about the peers that can use this server, if there is one.
  virtual std::optional<std::string> warning() const = 0;

  // The descriptor is readable (poll, epoll) when serve() has work.
  virtual int fd() const = 0;
  // Does a bounded part of the pending work, and never sleeps. It stays for at most limits::kStoreTurn and one request
  // of each client. It stays because a client with consecutive requests waits longer for the server to wake up than for
  // its answer.
  virtual void serve() = 0;

  // Serves one more client that is already connected, without checks. Only tests use it.
  virtual void add_client(base::UniqueFd socket, const std::string& name) = 0;

  // Sends a message to a launcher that has sent one and is still connected. The launcher receives it as soon as it can
  // be sent.
  virtual void send_control(ConnectionId to, std::string_view message) = 0;
  // Stops sending and receiving. The connection is lost when the launcher has read the sent messages and closes it.
  virtual void close_control(ConnectionId to) = 0;

  // Deletes all keys and closes all connections except those of launchers, because another attempt begins.
  virtual void forget_all() = 0;

  virtual wire::StoreReport report() const = 0;

  // Returns the waits that have lasted for at least that long, the longest first. Names at most limits::kStoreNamedKeys
  // keys.
  virtual std::vector<LongWait> long_waits(std::chrono::milliseconds least) = 0;
};

}  // namespace ddp::store

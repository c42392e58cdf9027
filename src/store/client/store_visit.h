// StoreVisit is a connection to ddplaunch's store from a process that is no rank. It inspects the store, or
// authenticates a node.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"
#include "net/socket.h"
#include "store/handshake.h"
#include "wire/store_report.h"

namespace ddp::store {

struct VisitFailure {
  enum class Kind {
    unreachable,  // no server answers; another attempt may help
    foreign,      // the server that answers is not ddplaunch's store
    refused,      // the server is, or may be, ddplaunch's store, but refuses this client
    lost,         // the connection broke after it was established
  };
  Kind kind;
  std::string message;  // says what happened at "HOST:PORT" and what to do; a sentence without a full stop
};

// Each call blocks until the deadline at most. It is not thread-safe. After a failure it is unusable.
class StoreVisit {
 public:
  // Makes one attempt. With `authenticator`, both sides prove that they know its secret. For the duration of the visit
  // the server then admits all connections from this client's address. If it is null, no proof is exchanged.
  static base::Result<StoreVisit, VisitFailure> open(const std::string& host, std::uint16_t port,
                                                     std::shared_ptr<const Authenticator> authenticator,
                                                     net::Deadline until);

  base::Result<wire::StoreReport, VisitFailure> report(net::Deadline until);

  // Returns the job's ranks that are not connected, as a list: "2, 5-7". The list is empty if there are none, or if no
  // client has sent its rank.
  base::Result<std::string, VisitFailure> absent_ranks(net::Deadline until);

  // Encodes a CONTROL request: a launcher's message to its coordinator. The coordinator's messages arrive as a u64
  // length and that many bytes.
  static std::string control_request(std::string_view message);
  // Receives the next message of the coordinator, after a request has been sent.
  base::Result<std::string, VisitFailure> control_message(net::Deadline until);

  // The descriptor is readable when the server has closed the connection, or its node has not answered for some time.
  int fd() const { return fd_.get(); }
  // Keeps the connection through a silence of this length. The caller notices a longer one.
  void outlast(std::chrono::milliseconds silence);

  // Returns why fd() is readable, if that is known.
  std::string why_lost() const;

  // Returns the local address of the connection, as the server's report shows it.
  std::string own_name() const;

 private:
  StoreVisit(base::UniqueFd fd, std::string where) : fd_(std::move(fd)), where_(std::move(where)) {}

  VisitFailure lost(const net::SocketFailure& failure) const;
  base::Result<std::string, net::SocketFailure> receive_bytes(net::Deadline until);
  std::optional<VisitFailure> authenticate(const std::shared_ptr<const Authenticator>& authenticator,
                                           net::Deadline until);
  std::optional<VisitFailure> expect_ours(net::Deadline until);

  base::UniqueFd fd_;
  std::string where_;
  bool greeted_ = false;  // it is ddplaunch's server
  bool proved_ = false;
};

}  // namespace ddp::store

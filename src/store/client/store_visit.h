// StoreVisit: a connection to a store of ours from somebody who is no rank: to look at it, or to vouch for a machine.
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
    unreachable,  // nobody answers: another try may help
    foreign,      // somebody does, who is no store of ours
    refused,      // a store of ours, or what may be one, does not let us in
    lost,         // the connection, in the middle
  };
  Kind kind;
  std::string message;  // what has happened at "HOST:PORT", and what to do; a sentence without a full stop
};

// Blocks until the deadline at most. Not thread-safe. After a failure it is of no use.
class StoreVisit {
 public:
  // One try. With `authenticator`, both sides prove that they know its secret: as long as the visit lasts, the server
  // then lets in all that comes from our address. Null: nothing is proved.
  static base::Result<StoreVisit, VisitFailure> open(const std::string& host, std::uint16_t port,
                                                     std::shared_ptr<const Authenticator> authenticator,
                                                     net::Deadline until);

  base::Result<wire::StoreReport, VisitFailure> report(net::Deadline until);

  // The ranks of the job that are not connected, as a list: "2, 5-7". Empty if there are none, and if no rank has said
  // what it is.
  base::Result<std::string, VisitFailure> absent_ranks(net::Deadline until);

  // The bytes of CONTROL: what a launcher says to its coordinator. What that says comes as a u64 and so many bytes.
  static std::string control_request(std::string_view message);

  // Readable when the server has closed the connection, or its machine has not answered for some time.
  int fd() const { return fd_.get(); }
  // What makes fd() readable, as far as it is known.
  std::string why_lost() const;

  // Our end, as the server's report names it.
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
  bool greeted_ = false;  // it is ours
  bool proved_ = false;
};

}  // namespace ddp::store

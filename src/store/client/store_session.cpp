#include "store/client/store_session.h"

#include <ddp/error.h>

#include <algorithm>
#include <cctype>
#include <climits>

#include "base/text.h"
#include "net/address.h"
#include "store/key_names.h"
#include "store/limits.h"
#include "wire/limits.h"

namespace ddp::store {

using net::Deadline;
using net::SocketFailure;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using wire::StoreDialect;
using wire::StoreOp;
using wire::StoreRequest;
using Keys = std::span<const std::string>;

namespace {

// Returns the ranges of a list, without `own`. Text that is no list of ranks is returned unchanged.
std::string list_without(std::optional<int> own, const std::string& list) {
  std::vector<std::string> parts;
  const auto add = [&](std::int64_t first, std::int64_t last) {
    if (first > last) return;
    parts.push_back(first == last ? std::to_string(first) : std::to_string(first) + "-" + std::to_string(last));
  };
  for (std::string part : base::split(list, ',')) {
    part.erase(0, part.find_first_not_of(' '));
    if (part.empty()) continue;
    const auto dash = part.find('-');
    const auto first = base::parse_integer(part.substr(0, dash), 0, INT_MAX);
    const auto last = dash == std::string::npos ? first : base::parse_integer(part.substr(dash + 1), 0, INT_MAX);
    if (!first || !last) {
      parts.push_back(part);
    } else if (own && *first <= *own && *own <= *last) {
      add(*first, *own - 1);
      add(*own + 1, *last);
    } else {
      add(*first, *last);
    }
  }
  return base::join(parts, ", ");
}

void require(std::size_t size, std::size_t limit, const char* what, const std::string& key) {
  if (size <= limit) return;
  throw Error(ErrorKind::invalid_argument, "the store does not accept the " + std::string(what) + " '" +
                                               key.substr(1, 40) + "' of " + std::to_string(size) + " bytes (limit " +
                                               std::to_string(limit) + ")");
}

void require_limits(const StoreRequest& request) {
  if (request.keys.size() > limits::kStoreKeysPerRequest) {
    throw Error(ErrorKind::invalid_argument, "the store does not accept a request of " +
                                                 std::to_string(request.keys.size()) + " keys (limit " +
                                                 std::to_string(limits::kStoreKeysPerRequest) + ")");
  }
  for (const std::string& key : request.keys) require(key.size(), limits::kStoreKeyBytes, "key", key);
  for (const std::string& value : request.values) {
    require(value.size(), limits::kStoreValueBytes, "value of", request.keys.front());
  }
}

}  // namespace

StoreSession::StoreSession(const TcpStoreOptions& options, const ServerFacts* same_as)
    : options_(options),
      where_(net::host_and_port(options.host, options.port)),
      connection_(StoreConnection::connect(options, deadline(), same_as != nullptr)),
      server_(connection_->server()) {
  if (same_as != nullptr) require_same(*same_as);
}

void StoreSession::require_same(const ServerFacts& server) const {
  if (server == server_) return;
  throw Error(ErrorKind::unavailable,
              "the store at " + where_ +
                  " was replaced, and the data of the previous store is lost. Start the whole job again.");
}

void StoreSession::write(const StoreRequest& request) {
  if (request.keys.empty()) return;
  const std::string key = request.keys.front().substr(1);
  connect_again(deadline());
  try {
    send({request}, deadline());
    unconfirmed_ = request.op;
    unconfirmed_key_ = key;
  } catch (const ConnectionLost& lost) {
    connection_.reset();
    fail(lost.failure, name(request.op, key));
  }
}

void StoreSession::connect_again(Deadline until) {
  if (connection_) return;
  if (server_.id == 0 && !closed_by_us_) {
    throw Error(ErrorKind::unavailable, "the connection to the store at " + where_ + " was lost before");
  }
  auto connection = StoreConnection::connect(options_, until, /*has_run=*/true);
  require_same(connection->server());
  connection_ = std::move(connection);
  closed_by_us_ = false;
}

void StoreSession::await_keys(StoreOp op, Keys keys, milliseconds timeout, Deadline until) {
  try {
    receive<std::uint8_t>(until);
    return;
  } catch (const ConnectionLost& lost) {
    if (lost.failure.kind != SocketFailure::Kind::timed_out) throw;
  }
  const bool barrier = op == StoreOp::barrier;
  const auto in_vain = [&](Keys missing) {
    return "waited " + base::human_duration(timeout) +
           (barrier ? " at barrier '" + missing.front() + "'" : " for " + name_keys(missing)) + " in the store at " +
           where_ + ". ";
  };
  std::string message;
  if (server_.dialect == StoreDialect::legacy) {
    // PyTorch 1.13's server forgets a wait only when its connection closes.
    connection_.reset();
    closed_by_us_ = true;
    message = in_vain(keys) + "Has every rank reached this point?";
  } else {
    if (cancel_wait()) return;
    const auto missing = barrier ? std::vector<std::string>(keys.begin(), keys.end()) : absent(keys);
    message = in_vain(missing) + explain(missing);
  }
  unconfirmed_.reset();
  throw Error(ErrorKind::timeout, message);
}

bool StoreSession::cancel_wait() {
  const Deadline until = deadline();
  send({bare(StoreOp::cancel_wait)}, until);
  bool came = false;
  while (receive<std::uint8_t>(until) != wire::kStoreWaitCanceled) came = true;
  return came;
}

std::vector<std::string> StoreSession::absent(Keys keys) {
  const Deadline until = deadline();
  keys = keys.first(std::min(keys.size(), limits::kStoreAbsentKeys));
  std::string requests;
  for (const std::string& key : keys) requests += encode(about(StoreOp::check, key), server_.dialect);
  connection_->send(requests, until);
  std::vector<std::string> result;
  for (const std::string& key : keys) {
    if (receive<std::uint8_t>(until) != wire::kStoreReady) result.push_back(key);
  }
  return result.empty() ? std::vector<std::string>(keys.begin(), keys.end()) : result;
}

std::string StoreSession::explain(Keys keys) {
  std::string text;
  if (server_.ours) {
    const Deadline until = deadline();
    send({about(StoreOp::explain, keys)}, until);
    WaitReport report;
    for (std::string* list : {&report.waiting, &report.elsewhere, &report.never}) {
      *list = connection_->receive_bytes(until);
    }
    text = describe(report, options_.rank);
  }
  return text.empty() ? "Has every rank reached this point?" : text;
}

void StoreSession::send(Requests requests, Deadline until) {
  std::string bytes;
  for (const StoreRequest& request : requests) {
    require_limits(request);
    bytes += encode(request, server_.dialect);
  }
  connection_->send(bytes, until);
}

std::string StoreSession::name(StoreOp op, const std::string& key) {
  return std::string(to_string(op)) + " of key '" + key + "'";
}

void StoreSession::fail(const SocketFailure& failure, const std::string& what) {
  std::string doubt = what;
  if (unconfirmed_) doubt = name(*unconfirmed_, unconfirmed_key_) + (what.empty() ? "" : " and " + what);
  unconfirmed_.reset();
  const std::string unknown = doubt.empty() ? "" : ". It is unknown whether " + doubt + " was carried out";
  const bool timed_out = failure.kind == SocketFailure::Kind::timed_out;
  throw Error(timed_out ? ErrorKind::timeout : ErrorKind::unavailable,
              "the store at " + where_ + " does not answer: " + failure.message + unknown +
                  ". Check whether ddplaunch, or the rank that serves the store, has exited.");
}

std::string describe(const WaitReport& report, std::optional<int> own) {
  std::string text = base::rank_clause(list_without(own, report.waiting), "waits for it too", "wait for it too");
  const bool is_alone = text.empty();
  text += base::rank_clause(list_without(own, report.elsewhere),
                            is_alone ? "is connected but does not wait for it" : "is connected but does not",
                            is_alone ? "are connected but do not wait for it" : "are connected but do not");
  text += base::rank_clause(list_without(own, report.never), "has not arrived", "have not arrived");
  if (text.empty()) return "";
  text = text.substr(2) + ".";
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

}  // namespace ddp::store

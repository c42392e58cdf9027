#include "store/client/store_connection.h"

#include <ddp/error.h>

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include "base/host_name.h"
#include "base/text.h"
#include "store/limits.h"

namespace ddp::store {
namespace {

using net::Deadline;
using net::SocketFailure;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using wire::StoreDialect;
using wire::StoreOp;
using wire::StoreRequest;

// PyTorch 1.13's server reads VALIDATE as a SET, and the following bytes as the length of its key. The nonce's lower
// bytes make that length so large that the server does not try to allocate it. It closes the connection at once.
std::uint32_t ping_nonce() {
  return (static_cast<std::uint32_t>(::getpid()) << 24) | 0x00FFFFFF;
}

std::string host_and_pid() {
  return base::host_name() + ":" + std::to_string(::getpid());
}

// Jitter keeps ranks that were started together from retrying at the same moment.
milliseconds jittered(milliseconds pause) {
  static thread_local std::minstd_rand random(std::random_device{}());
  return milliseconds(std::uniform_int_distribution<milliseconds::rep>(pause.count() / 2, pause.count())(random));
}

}  // namespace

std::unique_ptr<StoreConnection> StoreConnection::connect(const TcpStoreOptions& options, Deadline until,
                                                          bool has_run) {
  const auto begin = steady_clock::now();
  milliseconds pause = limits::kStoreFirstPause;
  while (true) {
    auto connection = try_once(options, until);
    if (connection) return std::move(connection).value();
    const SocketFailure& failure = connection.error();
    if (has_run && failure.kind == SocketFailure::Kind::refused) {
      throw Error(ErrorKind::unavailable, "the store at " + options.host + ":" + std::to_string(options.port) +
                                              " has ended (" + failure.message +
                                              "). The process that served it, ddplaunch or rank 0, has exited.");
    }
    if (steady_clock::now() + pause >= until) {
      throw Error(ErrorKind::unavailable, "cannot reach the store at " + options.host + ":" +
                                              std::to_string(options.port) + " within " +
                                              base::human_duration(until - begin) + " (" + failure.message +
                                              "). Is ddplaunch running there? See MASTER_ADDR and MASTER_PORT.");
    }
    std::this_thread::sleep_for(jittered(pause));
    pause = std::min<milliseconds>(pause * 2, limits::kStoreLongestPause);
  }
}

base::Result<std::unique_ptr<StoreConnection>, SocketFailure> StoreConnection::try_once(const TcpStoreOptions& options,
                                                                                        Deadline until) {
  for (const StoreDialect dialect : {StoreDialect::current, StoreDialect::legacy}) {
    auto fd = net::connect_tcp(options.host, options.port, until);
    if (!fd) return fd.error();
    std::unique_ptr<StoreConnection> connection(new StoreConnection(std::move(fd).value()));
    connection->server_.dialect = dialect;
    try {
      // A peer that is no store may accept and never answer, so one attempt must not use up all the time.
      connection->greet(options, std::min<Deadline>(until, steady_clock::now() + limits::kStoreHandshake));
      return connection;
    } catch (const ConnectionLost& lost) {
      const bool closed = lost.failure.kind == SocketFailure::Kind::closed;
      const bool answered = connection->input_end_ > 0;
      if (closed && answered) return lost.failure;
      // PyTorch 1.13's server closes the connection upon the first greeting. A peer that is no store may do so too.
      if (!closed) break;
    }
  }
  return SocketFailure{SocketFailure::Kind::failed, "it does not use the store protocol"};
}

void StoreConnection::greet(const TcpStoreOptions& options, Deadline until) {
  const auto no_store = [] { return ConnectionLost{{SocketFailure::Kind::failed, "not a store"}}; };
  if (server_.dialect == StoreDialect::legacy) {
    send(encode(StoreRequest{.op = StoreOp::key_count, .keys = {}, .values = {}}, StoreDialect::legacy), until);
    if (receive<std::int64_t>(until) < 0) throw no_store();
    return;
  }
  const std::uint32_t nonce = ping_nonce();
  send(encode(StoreRequest{.op = StoreOp::validate, .keys = {}, .values = {}, .number = wire::kStoreMagic}) +
           encode(StoreRequest{.op = StoreOp::ping, .keys = {}, .values = {}, .number = nonce}) +
           encode(StoreRequest{.op = StoreOp::check, .keys = {std::string(wire::kStoreExtensionsKey)}, .values = {}}),
       until);
  if (receive<std::uint32_t>(until) != nonce) throw no_store();
  const auto extensions = receive<std::uint8_t>(until);
  if (extensions > wire::kStoreNotReady) throw no_store();
  server_.ours = extensions == wire::kStoreReady;
  if (!server_.ours || !options.rank) return;
  send(encode(StoreRequest{.op = StoreOp::hello,
                           .keys = {},
                           .values = {host_and_pid()},
                           .delta = *options.rank,
                           .number = static_cast<std::uint32_t>(options.world_size.value_or(0))}),
       until);
  server_.id = receive<std::int64_t>(until);
}

void StoreConnection::send(std::span<const char> bytes, Deadline until) {
  if (auto sent = net::send_all(fd_.get(), bytes, until); !sent) throw ConnectionLost{sent.error()};
}

std::string StoreConnection::receive_bytes(Deadline until) {
  const auto length = receive<std::uint64_t>(until);
  if (length > limits::kStoreUnsentBytes) {
    throw ConnectionLost{{SocketFailure::Kind::failed, "it sent a reply of " + std::to_string(length) + " bytes"}};
  }
  std::string bytes(length, '\0');
  receive_into(bytes, until);
  return bytes;
}

void StoreConnection::receive_into(std::span<char> bytes, Deadline until) {
  while (!bytes.empty()) {
    const std::size_t ready = std::min(bytes.size(), input_end_ - input_begin_);
    std::memcpy(bytes.data(), input_.data() + input_begin_, ready);
    input_begin_ += ready;
    bytes = bytes.subspan(ready);
    if (bytes.empty()) return;
    // Large values are received into their destination without a copy.
    const bool direct = bytes.size() >= input_.size();
    const auto received = net::receive_some(fd_.get(), direct ? bytes : std::span<char>(input_), until);
    if (!received) throw ConnectionLost{received.error()};
    if (direct) {
      bytes = bytes.subspan(received.value());
    } else {
      input_begin_ = 0;
      input_end_ = received.value();
    }
  }
}

}  // namespace ddp::store

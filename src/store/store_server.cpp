// One session a connection. A session reads at most kStoreReadBytes a turn, hands whole requests to the table and
// sends what the table answers, to itself or to others that waited. What a client does not read is kept up to a limit,
// then the client is dropped: a stopped client must not cost the others memory or time.
#include "store/store_server.h"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>

#include <array>
#include <unordered_map>

#include "base/limits.h"
#include "net/event_loop_asio.h"
#include "store/store_table.h"
#include "wire/store_message.h"

namespace ddp::store {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

class Server;

class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(Server& server, ConnectionId id, tcp::socket socket, std::string peer)
      : server_(server), id_(id), socket_(std::move(socket)), peer_(std::move(peer)) {}

  void start() { read(); }
  void send(std::string bytes);
  void close();

  const std::string& peer() const { return peer_; }

 private:
  void read();
  void write();
  void handle(std::size_t byte_count);

  Server& server_;
  ConnectionId id_;
  tcp::socket socket_;
  std::string peer_;
  wire::StoreRequestParser parser_;
  std::array<char, limits::kStoreReadBytes> input_;
  std::string unsent_;   // waits for the write under way
  std::string sending_;  // owned by the write under way
  bool closed_ = false;
};

class Server : public StoreServer {
 public:
  Server(asio::io_context& context, ViolationCallback on_violation)
      : acceptor_(context), retry_(context), on_violation_(std::move(on_violation)) {}
  ~Server() override {
    for (auto& [id, session] : sessions_) session->close();
  }

  error_code open(const tcp::endpoint& endpoint) {
    error_code error;
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(limits::kStoreBacklog, error);
    if (!error) port_ = acceptor_.local_endpoint(error).port();
    if (!error) accept();
    return error;
  }

  std::uint16_t port() const override { return port_; }

  // Carries out a request and delivers the replies. False if the requester broke a rule.
  bool carry_out(ConnectionId from, const wire::StoreRequest& request) {
    StoreOutcome outcome = table_.apply(from, request);
    for (StoreReply& reply : outcome.replies) {
      const auto session = sessions_.find(reply.to);
      if (session != sessions_.end()) session->second->send(std::move(reply.bytes));
    }
    if (outcome.violation) reject(from, *outcome.violation);
    return !outcome.violation;
  }

  void reject(ConnectionId connection, const wire::StoreViolation& violation) {
    const auto session = sessions_.find(connection);
    if (session == sessions_.end()) return;
    if (on_violation_) on_violation_(session->second->peer(), violation.reason);
    drop(connection);
  }

  void drop(ConnectionId connection) {
    const auto session = sessions_.find(connection);
    if (session == sessions_.end()) return;
    session->second->close();
    sessions_.erase(session);
    table_.forget(connection);
  }

 private:
  // Asio may have queued a handler as successful before the server was destroyed.
  std::weak_ptr<int> alive() const { return alive_; }

  void accept() {
    acceptor_.async_accept([this, alive = alive()](const error_code& error, tcp::socket socket) {
      if (error == asio::error::operation_aborted || alive.expired()) return;
      if (error == asio::error::no_descriptors || error == boost::system::errc::too_many_files_open_in_system) {
        return accept_later();
      }
      if (!error) add_session(std::move(socket));  // else the peer left before it was accepted
      accept();
    });
  }

  void accept_later() {
    if (on_violation_ && !told_of_descriptors_) on_violation_("new clients", "out of file descriptors (ulimit -n)");
    told_of_descriptors_ = true;
    retry_.expires_after(std::chrono::milliseconds(50));
    retry_.async_wait([this, alive = alive()](const error_code& error) {
      if (!error && !alive.expired()) accept();
    });
  }

  void add_session(tcp::socket socket) {
    error_code error;
    const tcp::endpoint remote = socket.remote_endpoint(error);
    if (error) return;
    socket.set_option(tcp::no_delay(true), error);
    const std::string peer = remote.address().to_string() + ":" + std::to_string(remote.port());
    if (sessions_.size() >= limits::kStoreConnections) {
      if (on_violation_) on_violation_(peer, "too many connections");
      return;
    }
    const ConnectionId id = next_id_++;
    const auto session = std::make_shared<Session>(*this, id, std::move(socket), peer);
    sessions_.emplace(id, session);
    session->start();
  }

  tcp::acceptor acceptor_;
  asio::steady_timer retry_;
  ViolationCallback on_violation_;
  std::uint16_t port_ = 0;
  ConnectionId next_id_ = 1;
  bool told_of_descriptors_ = false;
  StoreTable table_;
  std::unordered_map<ConnectionId, std::shared_ptr<Session>> sessions_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();
};

void Session::read() {
  socket_.async_read_some(asio::buffer(input_),
                          [self = shared_from_this()](const error_code& error, std::size_t byte_count) {
                            if (self->closed_) return;
                            if (error) return self->server_.drop(self->id_);
                            self->handle(byte_count);
                          });
}

void Session::handle(std::size_t byte_count) {
  parser_.feed(std::string_view(input_.data(), byte_count));
  while (true) {
    auto next = parser_.next();
    if (const auto* violation = std::get_if<wire::StoreViolation>(&next)) return server_.reject(id_, *violation);
    if (std::holds_alternative<wire::StoreNeedsMore>(next)) break;
    if (!server_.carry_out(id_, std::get<wire::StoreRequest>(next)) || closed_) return;
  }
  read();
}

void Session::send(std::string bytes) {
  if (closed_) return;
  if (unsent_.size() + bytes.size() > limits::kStoreUnsentBytes) {
    return server_.reject(id_, {"the client does not read its replies"});
  }
  if (unsent_.empty()) {
    unsent_ = std::move(bytes);
  } else {
    unsent_ += bytes;
  }
  if (sending_.empty()) write();
}

void Session::write() {
  sending_.swap(unsent_);
  // Almost always the socket takes a short reply at once; only the rest waits for the loop.
  error_code error;
  socket_.non_blocking(true, error);
  const std::size_t sent = error ? 0 : socket_.write_some(asio::buffer(sending_), error);
  if (!error && sent == sending_.size()) return sending_.clear();
  asio::async_write(socket_, asio::buffer(sending_) + sent,
                    [self = shared_from_this()](const error_code& write_error, std::size_t) {
                      if (self->closed_) return;
                      if (write_error) return self->server_.drop(self->id_);
                      self->sending_.clear();
                      if (!self->unsent_.empty()) self->write();
                    });
}

void Session::close() {
  closed_ = true;
  error_code ignored;
  socket_.close(ignored);
}

}  // namespace

base::Result<std::unique_ptr<StoreServer>> StoreServer::listen(net::EventLoop& loop, const std::string& address,
                                                               std::uint16_t port, ViolationCallback on_violation) {
  const std::string where = address + ":" + std::to_string(port);
  error_code error;
  const auto ip = asio::ip::make_address(address, error);
  if (error) return base::Failure{"cannot serve the store on " + where + ": not an IP address"};
  auto server = std::make_unique<Server>(loop.asio().context, std::move(on_violation));
  error = server->open({ip, port});
  if (error) return base::Failure{"cannot serve the store on " + where + ": " + error.message()};
  return std::unique_ptr<StoreServer>(std::move(server));
}

}  // namespace ddp::store

// The client of a store server, current dialect. One request at a time; after any failure that leaves the stream in an
// unknown state the connection is closed, because a late reply must never be taken for the answer to another request.
#include <ddp/error.h>
#include <ddp/store.h>

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/limits.h"
#include "base/text.h"
#include "net/socket.h"
#include "wire/store_message.h"

namespace ddp {
namespace {

using net::Deadline;
using net::SocketFailure;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using wire::StoreOp;
using wire::StoreRequest;

class TcpStore : public Store {
 public:
  TcpStore(const std::string& host, std::uint16_t port, milliseconds timeout)
      : where_(host + ":" + std::to_string(port)), timeout_(timeout) {
    connect(host, port);
  }

  void set(const std::string& key, std::string_view value) override {
    const std::lock_guard lock(mutex_);
    send({.op = StoreOp::set, .keys = {wire_key(key)}, .values = {std::string(value)}}, deadline());
  }

  std::string get(const std::string& key) override { return multi_get(std::span(&key, 1)).front(); }

  std::vector<std::string> multi_get(std::span<const std::string> keys) override {
    const std::lock_guard lock(mutex_);
    const Deadline until = deadline();
    wait_locked(keys, timeout_, until);
    send({.op = StoreOp::multi_get, .keys = wire_keys(keys), .values = {}}, until);
    std::vector<std::string> values;
    for (std::size_t i = 0; i < keys.size(); ++i) values.push_back(receive_bytes(until));
    return values;
  }

  std::int64_t add(const std::string& key, std::int64_t delta) override {
    const std::lock_guard lock(mutex_);
    const Deadline until = deadline();
    send({.op = StoreOp::add, .keys = {wire_key(key)}, .values = {}, .delta = delta}, until);
    return receive<std::int64_t>(until);
  }

  std::string compare_set(const std::string& key, std::string_view expected, std::string_view desired) override {
    const std::lock_guard lock(mutex_);
    const Deadline until = deadline();
    send({.op = StoreOp::compare_set, .keys = {wire_key(key)}, .values = {std::string(expected), std::string(desired)}},
         until);
    return receive_bytes(until);
  }

  bool check(std::span<const std::string> keys) override {
    const std::lock_guard lock(mutex_);
    const Deadline until = deadline();
    send({.op = StoreOp::check, .keys = wire_keys(keys), .values = {}}, until);
    return receive<std::uint8_t>(until) == wire::kStoreReady;
  }

  void wait(std::span<const std::string> keys, milliseconds timeout) override {
    const std::lock_guard lock(mutex_);
    wait_locked(keys, timeout, steady_clock::now() + timeout);
  }

  bool delete_key(const std::string& key) override {
    const std::lock_guard lock(mutex_);
    const Deadline until = deadline();
    send({.op = StoreOp::delete_key, .keys = {wire_key(key)}, .values = {}}, until);
    return receive<std::int64_t>(until) > 0;
  }

  milliseconds timeout() const override { return timeout_; }

 private:
  // PyTorch's clients put a slash before every key; so do we, that both see the same keys.
  static std::string wire_key(const std::string& key) { return "/" + key; }
  static std::vector<std::string> wire_keys(std::span<const std::string> keys) {
    std::vector<std::string> result;
    for (const std::string& key : keys) result.push_back(wire_key(key));
    return result;
  }

  Deadline deadline() const { return steady_clock::now() + timeout_; }

  // The server may not be there yet, or not be a store at all: connect, announce the dialect, and see a ping come back;
  // if not, pause (10 ms, doubling up to 1 s) and try again until the deadline.
  void connect(const std::string& host, std::uint16_t port) {
    const Deadline until = deadline();
    milliseconds pause(10);
    while (true) {
      auto fd = net::connect_tcp(host, port, until);
      std::string reason = fd ? "it does not speak the store protocol" : fd.error().message;
      if (fd) {
        fd_ = std::move(fd).value();
        if (handshake(until)) return;
        fd_.reset();
      }
      if (steady_clock::now() + pause >= until) {
        throw Error(ErrorKind::unavailable, "cannot reach the store at " + where_ + " within " +
                                                base::human_duration(timeout_) + " (" + reason +
                                                "). Is ddplaunch running there? See MASTER_ADDR and MASTER_PORT.");
      }
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, milliseconds(1000));
    }
  }

  bool handshake(Deadline until) {
    const auto nonce = static_cast<std::uint32_t>(::getpid());
    const std::string hello =
        encode(StoreRequest{.op = StoreOp::validate, .keys = {}, .values = {}, .number = wire::kStoreMagic}) +
        encode(StoreRequest{.op = StoreOp::ping, .keys = {}, .values = {}, .number = nonce});
    std::uint32_t echo = 0;
    // A peer that is no store may accept and stay silent: one try must not use up all the time.
    const Deadline soon = std::min(until, steady_clock::now() + std::chrono::seconds(5));
    return net::send_all(fd_.get(), hello, soon) &&
           net::receive_all(fd_.get(), std::span(reinterpret_cast<char*>(&echo), sizeof echo), soon) && echo == nonce;
  }

  void wait_locked(std::span<const std::string> keys, milliseconds timeout, Deadline until) {
    send({.op = StoreOp::wait, .keys = wire_keys(keys), .values = {}}, deadline());
    std::uint8_t answer = 0;
    const auto got = net::receive_all(fd_.get(), std::span(reinterpret_cast<char*>(&answer), 1), until);
    if (got) return;
    if (got.error().kind != SocketFailure::Kind::timed_out) fail(got.error());
    if (cancel_wait()) return;
    throw Error(ErrorKind::timeout, "waited " + base::human_duration(timeout) + " for " + name_keys(absent(keys)) +
                                        " in the store at " + where_ + ". Has every rank reached this point?");
  }

  // True if the last key came in the last moment: that is answered before the cancellation is.
  bool cancel_wait() {
    const Deadline until = deadline();
    send({.op = StoreOp::cancel_wait, .keys = {}, .values = {}}, until);
    bool came = false;
    while (receive<std::uint8_t>(until) != wire::kStoreWaitCanceled) came = true;
    return came;
  }

  // Those of the first thousand keys that do not exist now.
  std::vector<std::string> absent(std::span<const std::string> keys) {
    const Deadline until = deadline();
    std::vector<std::string> result;
    for (const std::string& key : keys.first(std::min<std::size_t>(keys.size(), 1000))) {
      send({.op = StoreOp::check, .keys = {wire_key(key)}, .values = {}}, until);
      if (receive<std::uint8_t>(until) != wire::kStoreReady) result.push_back(key);
    }
    return result;
  }

  static std::string name_keys(std::span<const std::string> keys) {
    std::string text = keys.size() == 1 ? "key '" : std::to_string(keys.size()) + " keys '";
    for (std::size_t i = 0; i < std::min<std::size_t>(keys.size(), 4); ++i) {
      if (i > 0) text += "', '";
      text += keys[i];
    }
    return text + (keys.size() > 4 ? "', …" : "'");
  }

  void send(const StoreRequest& request, Deadline until) {
    if (!fd_) throw Error(ErrorKind::unavailable, "the connection to the store at " + where_ + " was lost before");
    if (request.keys.size() > limits::kStoreKeysPerRequest) {
      throw Error(ErrorKind::invalid_argument, "the store takes no request of " + std::to_string(request.keys.size()) +
                                                   " keys (limit " + std::to_string(limits::kStoreKeysPerRequest) +
                                                   ")");
    }
    for (const std::string& key : request.keys) require(key.size(), limits::kStoreKeyBytes, "key", key);
    for (const std::string& value : request.values) {
      require(value.size(), limits::kStoreValueBytes, "value of", request.keys.front());
    }
    if (auto sent = net::send_all(fd_.get(), encode(request), until); !sent) fail(sent.error());
  }

  static void require(std::size_t size, std::size_t limit, const char* what, const std::string& key) {
    if (size <= limit) return;
    throw Error(ErrorKind::invalid_argument, "the store takes no " + std::string(what) + " '" + key.substr(1, 40) +
                                                 "' of " + std::to_string(size) + " bytes (limit " +
                                                 std::to_string(limit) + ")");
  }

  void receive(std::span<char> bytes, Deadline until) {
    if (auto got = net::receive_all(fd_.get(), bytes, until); !got) fail(got.error());
  }

  template <typename Integer>
  Integer receive(Deadline until) {
    Integer value{};
    receive(std::span(reinterpret_cast<char*>(&value), sizeof value), until);
    return value;
  }

  std::string receive_bytes(Deadline until) {
    const auto length = receive<std::uint64_t>(until);
    if (length > limits::kStoreUnsentBytes) {
      fail({SocketFailure::Kind::failed, "a reply of " + std::to_string(length) + " bytes"});
    }
    std::string bytes(length, '\0');
    receive(bytes, until);
    return bytes;
  }

  [[noreturn]] void fail(const SocketFailure& failure) {
    fd_.reset();
    const bool timed_out = failure.kind == SocketFailure::Kind::timed_out;
    throw Error(timed_out ? ErrorKind::timeout : ErrorKind::unavailable,
                "the store at " + where_ + " does not answer: " + failure.message +
                    ". Has ddplaunch, or the rank that serves the store, ended?");
  }

  const std::string where_;
  const milliseconds timeout_;
  std::mutex mutex_;
  base::UniqueFd fd_;
};

}  // namespace

std::shared_ptr<Store> connect_tcp_store(const std::string& host, std::uint16_t port, milliseconds timeout) {
  return std::make_shared<TcpStore>(host, port, timeout);
}

}  // namespace ddp

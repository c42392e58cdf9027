// This is the client of a store server. A connection carries one request at a time. It is closed after any failure that
// leaves the stream in an unknown state. Otherwise a late reply could be taken for the answer to another request.
//
// All threads share one connection, so that the server carries out their requests in order. A thread that must wait for
// a key takes the connection once all requests on it are answered. Other threads meanwhile use another connection,
// because their requests may set the awaited key, here or on another rank.
#include <ddp/error.h>
#include <ddp/store.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/text.h"
#include "store/client/store_session.h"
#include "store/key_names.h"
#include "store/limits.h"

namespace ddp {
namespace {

using net::Deadline;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using store::about;
using store::bare;
using store::StoreSession;
using wire::StoreDialect;
using wire::StoreOp;
using Keys = std::span<const std::string>;

class TcpStore : public Store {
 public:
  explicit TcpStore(const TcpStoreOptions& options)
      : options_(options),
        shared_(std::make_unique<StoreSession>(options)),
        server_(shared_->server()),
        where_(shared_->where()) {}

  void set(const std::string& key, std::string_view value) override {
    Turn turn(*this);
    turn->write(about(StoreOp::set, key, {std::string(value)}));
  }

  std::string get(const std::string& key) override { return multi_get(std::span(&key, 1)).front(); }

  std::vector<std::string> multi_get(Keys keys) override {
    Turn turn(*this);
    return turn->read(turn->deadline(), [&](Deadline until) {
      // ddplaunch's server returns an empty value for an absent key. Other servers may close the connection.
      if (server_.ours && keys.size() <= limits::kStoreEagerKeys) {
        turn->send({about(StoreOp::check, keys), about(StoreOp::multi_get, keys)}, until);
        const bool ready = turn->receive<std::uint8_t>(until) == wire::kStoreReady;
        auto values = receive_values(turn, keys.size(), until);
        turn->confirm();
        if (ready) return values;
      }
      wait_aside(turn, about(StoreOp::wait, keys), keys, options_.timeout, until);
      if (server_.dialect == StoreDialect::current) {
        turn->send({about(StoreOp::multi_get, keys)}, until);
        return receive_values(turn, keys.size(), until);
      }
      std::vector<std::string> values;
      for (const std::string& key : keys) {
        turn->send({about(StoreOp::get, key)}, until);
        values.push_back(turn->receive_bytes(until));
      }
      return values;
    });
  }

  std::int64_t add(const std::string& key, std::int64_t delta) override {
    return once(about(StoreOp::add, key, {}, delta), key);
  }

  std::string compare_set(const std::string& key, std::string_view expected, std::string_view desired) override {
    Turn turn(*this);
    return turn->once(StoreOp::compare_set, key, turn->deadline(), [&](Deadline until) {
      turn->send({about(StoreOp::compare_set, key, {std::string(expected), std::string(desired)})}, until);
      return turn->receive_bytes(until);
    });
  }

  bool check(Keys keys) override { return read<std::uint8_t>(about(StoreOp::check, keys)) == wire::kStoreReady; }

  void wait(Keys keys, milliseconds timeout) override {
    Turn turn(*this);
    turn->read(steady_clock::now() + timeout, [&](Deadline until) {
      wait_aside(turn, about(StoreOp::wait, keys), keys, timeout, until);
      return true;
    });
  }

  bool delete_key(const std::string& key) override { return once(about(StoreOp::delete_key, key), key) > 0; }

  milliseconds timeout() const override { return options_.timeout; }

  void append(const std::string& key, std::string_view value) override {
    require_current(StoreOp::append);
    Turn turn(*this);
    turn->write(about(StoreOp::append, key, {std::string(value)}));
  }

  void multi_set(Keys keys, std::span<const std::string> values) override {
    store::require_pairs(keys, values);
    if (server_.dialect == StoreDialect::legacy) {
      for (std::size_t i = 0; i < keys.size(); ++i) set(keys[i], values[i]);
      return;
    }
    wire::StoreRequest request = about(StoreOp::multi_set, keys);
    request.values.assign(values.begin(), values.end());
    Turn turn(*this);
    turn->write(request);
  }

  std::int64_t num_keys() override { return read<std::int64_t>(bare(StoreOp::key_count)); }

  std::vector<std::string> list_keys() override {
    require_current(StoreOp::list_keys);
    Turn turn(*this);
    return turn->read(turn->deadline(), [&](Deadline until) {
      turn->send({bare(StoreOp::list_keys)}, until);
      std::vector<std::string> keys;
      for (auto left = turn->receive<std::int64_t>(until); left > 0; --left) {
        std::string key = turn->receive_bytes(until);
        if (key.starts_with('/')) keys.push_back(key.substr(1));
      }
      return keys;
    });
  }

  void queue_push(const std::string& key, std::string_view value) override {
    require_current(StoreOp::queue_push);
    Turn turn(*this);
    turn->write(about(StoreOp::queue_push, key, {std::string(value)}));
  }

  std::string queue_pop(const std::string& key, milliseconds timeout) override {
    const Deadline until = steady_clock::now() + timeout;
    while (true) {
      if (auto value = try_queue_pop(key)) return *value;
      {
        Turn turn(*this);
        turn->read(until, [&](Deadline) {
          wait_aside(turn, about(StoreOp::wait, key), std::span(&key, 1), timeout, until);
          return true;
        });
      }
      if (auto value = try_queue_pop(key)) return *value;
      // Another client took the value first, or the key also has a value, so that WAIT returns while the queue is
      // empty.
      if (steady_clock::now() >= until) {
        throw Error(ErrorKind::timeout, "waited " + base::human_duration(timeout) +
                                            " for a value in the queue of key '" + key + "' in the store at " + where_);
      }
      std::this_thread::sleep_for(milliseconds(1));
    }
  }

  std::optional<std::string> try_queue_pop(const std::string& key) override {
    require_current(StoreOp::queue_pop);
    Turn turn(*this);
    return turn->once(StoreOp::queue_pop, key, turn->deadline(), [&](Deadline until) -> std::optional<std::string> {
      turn->send({about(StoreOp::queue_pop, key)}, until);
      if (turn->receive<std::int64_t>(until) <= 0) return std::nullopt;
      return turn->receive_bytes(until);
    });
  }

  std::int64_t queue_len(const std::string& key) override {
    require_current(StoreOp::queue_len);
    return read<std::int64_t>(about(StoreOp::queue_len, key));
  }

  void barrier(const std::string& key, int world_size, milliseconds timeout) override {
    if (world_size < 1)
      throw Error(ErrorKind::invalid_argument, "barrier '" + key + "': the world size must be 1 or more");
    if (server_.dialect == StoreDialect::legacy) return counted_barrier(key, world_size, timeout);
    Turn turn(*this);
    turn->once(StoreOp::barrier, key, steady_clock::now() + timeout, [&](Deadline until) {
      wait_aside(turn, about(StoreOp::barrier, key, {}, world_size), std::span(&key, 1), timeout, until);
      return true;
    });
  }

 private:
  // Represents a thread's exclusive use of the shared connection.
  class Turn {
   public:
    explicit Turn(TcpStore& store) : store_(store), lock_(store.mutex_) {
      while (!store_.shared_) {
        if (store_.idle_.empty()) add_connection();
        if (store_.shared_) return;
        store_.shared_ = std::move(store_.idle_.back());
        store_.idle_.pop_back();
      }
    }
    ~Turn() {
      if (!own_) return;
      const std::lock_guard lock(store_.mutex_);
      if (store_.shared_) {
        if (own_->usable()) store_.idle_.push_back(std::move(own_));
      } else {
        store_.shared_ = std::move(own_);
      }
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    StoreSession* operator->() { return own_ ? own_.get() : store_.shared_.get(); }

    // Lets other threads continue on another connection. All requests on this one must have been answered.
    void step_aside() {
      if (own_) return;
      own_ = std::move(store_.shared_);
      lock_.unlock();
    }

   private:
    void add_connection() {
      lock_.unlock();
      auto session = std::make_unique<StoreSession>(store_.options_, &store_.server_);
      lock_.lock();
      store_.idle_.push_back(std::move(session));
    }

    TcpStore& store_;
    std::unique_lock<std::mutex> lock_;
    std::unique_ptr<StoreSession> own_;
  };

  // These functions send a request and return the number that answers it. read() is for requests that change nothing,
  // once() for those that must not be repeated.
  template <typename Integer>
  Integer read(const wire::StoreRequest& request) {
    Turn turn(*this);
    return turn->read(turn->deadline(), [&](Deadline until) {
      turn->send({request}, until);
      return turn->receive<Integer>(until);
    });
  }
  std::int64_t once(const wire::StoreRequest& request, const std::string& key) {
    Turn turn(*this);
    return turn->once(request.op, key, turn->deadline(), [&](Deadline until) {
      turn->send({request}, until);
      return turn->receive<std::int64_t>(until);
    });
  }

  // Sends WAIT or BARRIER, and before it CHECK if a write is unconfirmed. Returns when the request is answered.
  static void wait_aside(Turn& turn, const wire::StoreRequest& request, Keys keys, milliseconds timeout,
                         Deadline until) {
    const Deadline sent = std::max(until, turn->deadline());
    if (turn->all_confirmed()) {
      turn->send({request}, sent);
    } else {
      turn->send({about(StoreOp::check, keys.first(std::min<std::size_t>(keys.size(), 1))), request}, sent);
      turn->receive<std::uint8_t>(sent);
      turn->confirm();
    }
    turn.step_aside();
    turn->await_keys(request.op, keys, timeout, until);
  }

  void require_current(StoreOp op) const {
    if (server_.dialect == StoreDialect::current) return;
    throw Error(ErrorKind::unavailable, "the store at " + where_ + " is PyTorch 1.13's, which has no " +
                                            std::string(to_string(op)) + ". Use a newer PyTorch or ddplaunch's store.");
  }

  static std::vector<std::string> receive_values(Turn& turn, std::size_t count, Deadline until) {
    std::vector<std::string> values(count);
    for (std::string& value : values) value = turn->receive_bytes(until);
    return values;
  }

  // Implements the barrier as PyTorch 1.13 does, whose server has no request for it.
  void counted_barrier(const std::string& key, int world_size, milliseconds timeout) {
    const Deadline until = steady_clock::now() + timeout;
    for (std::int64_t count = add(key, 1); count < world_size; count = add(key, 0)) {
      if (steady_clock::now() >= until) {
        throw Error(ErrorKind::timeout, "waited " + base::human_duration(timeout) + " at barrier '" + key +
                                            "' in the store at " + where_ + ": " + std::to_string(count) + " of " +
                                            std::to_string(world_size) + " ranks arrived");
      }
      std::this_thread::sleep_for(limits::kStoreFirstPause);
    }
  }

  const TcpStoreOptions options_;
  std::mutex mutex_;
  std::unique_ptr<StoreSession> shared_;             // null while a thread waits on that connection
  std::vector<std::unique_ptr<StoreSession>> idle_;  // connections whose waits have ended
  const store::ServerFacts server_;
  const std::string where_;
};

}  // namespace

std::shared_ptr<Store> connect_tcp_store(const TcpStoreOptions& options) {
  return std::make_shared<TcpStore>(options);
}

std::shared_ptr<Store> connect_tcp_store(const std::string& host, std::uint16_t port, milliseconds timeout) {
  return connect_tcp_store(TcpStoreOptions{host, port, timeout, std::nullopt, std::nullopt});
}

}  // namespace ddp

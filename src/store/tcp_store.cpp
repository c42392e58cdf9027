// The client of a store server. One request at a time; after any failure that leaves the stream in an unknown state the
// connection is closed, because a late reply must never be taken for the answer to another request.
#include <ddp/error.h>
#include <ddp/store.h>

#include <mutex>
#include <thread>

#include "base/limits.h"
#include "base/text.h"
#include "store/key_requests.h"
#include "store/store_session.h"

namespace ddp {
namespace {

using net::Deadline;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using store::about;
using store::bare;
using wire::StoreDialect;
using wire::StoreOp;
using Keys = std::span<const std::string>;

class TcpStore : public Store {
 public:
  explicit TcpStore(const TcpStoreOptions& options) : timeout_(options.timeout), session_(options) {}

  void set(const std::string& key, std::string_view value) override {
    const std::lock_guard lock(mutex_);
    session_.write(about(StoreOp::set, key, {std::string(value)}));
  }

  std::string get(const std::string& key) override { return multi_get(std::span(&key, 1)).front(); }

  std::vector<std::string> multi_get(Keys keys) override {
    const std::lock_guard lock(mutex_);
    return session_.read(session_.deadline(), [&](Deadline until) {
      // An absent key is an empty value to our server; to others it may be a reason to close the connection.
      if (session_.server().ours && keys.size() <= limits::kStoreEagerKeys) {
        session_.send({about(StoreOp::check, keys), about(StoreOp::multi_get, keys)}, until);
        const bool ready = session_.receive<std::uint8_t>(until) == wire::kStoreReady;
        auto values = receive_values(keys.size(), until);
        if (ready) return values;
      }
      session_.wait_for(about(StoreOp::wait, keys), keys, timeout_, until);
      if (session_.server().dialect == StoreDialect::current) {
        session_.send({about(StoreOp::multi_get, keys)}, until);
        return receive_values(keys.size(), until);
      }
      std::vector<std::string> values;
      for (const std::string& key : keys) {
        session_.send({about(StoreOp::get, key)}, until);
        values.push_back(session_.receive_bytes(until));
      }
      return values;
    });
  }

  std::int64_t add(const std::string& key, std::int64_t delta) override {
    const std::lock_guard lock(mutex_);
    return session_.once(StoreOp::add, key, session_.deadline(), [&](Deadline until) {
      session_.send({about(StoreOp::add, key, {}, delta)}, until);
      return session_.receive<std::int64_t>(until);
    });
  }

  std::string compare_set(const std::string& key, std::string_view expected, std::string_view desired) override {
    const std::lock_guard lock(mutex_);
    return session_.once(StoreOp::compare_set, key, session_.deadline(), [&](Deadline until) {
      session_.send({about(StoreOp::compare_set, key, {std::string(expected), std::string(desired)})}, until);
      return session_.receive_bytes(until);
    });
  }

  bool check(Keys keys) override {
    const std::lock_guard lock(mutex_);
    return session_.read(session_.deadline(), [&](Deadline until) {
      session_.send({about(StoreOp::check, keys)}, until);
      return session_.receive<std::uint8_t>(until) == wire::kStoreReady;
    });
  }

  void wait(Keys keys, milliseconds timeout) override {
    const std::lock_guard lock(mutex_);
    session_.read(steady_clock::now() + timeout, [&](Deadline until) {
      session_.wait_for(about(StoreOp::wait, keys), keys, timeout, until);
      return true;
    });
  }

  bool delete_key(const std::string& key) override {
    const std::lock_guard lock(mutex_);
    return session_.once(StoreOp::delete_key, key, session_.deadline(), [&](Deadline until) {
      session_.send({about(StoreOp::delete_key, key)}, until);
      return session_.receive<std::int64_t>(until) > 0;
    });
  }

  milliseconds timeout() const override { return timeout_; }

  void append(const std::string& key, std::string_view value) override {
    session_.require_current(StoreOp::append);
    const std::lock_guard lock(mutex_);
    session_.write(about(StoreOp::append, key, {std::string(value)}));
  }

  void multi_set(Keys keys, std::span<const std::string> values) override {
    if (keys.size() != values.size()) {
      throw Error(ErrorKind::invalid_argument, "multi_set: " + base::counted(std::ssize(keys), "key") + " but " +
                                                   base::counted(std::ssize(values), "value"));
    }
    if (session_.server().dialect == StoreDialect::legacy) {
      for (std::size_t i = 0; i < keys.size(); ++i) set(keys[i], values[i]);
      return;
    }
    wire::StoreRequest request = about(StoreOp::multi_set, keys);
    request.values.assign(values.begin(), values.end());
    const std::lock_guard lock(mutex_);
    session_.write(request);
  }

  std::int64_t num_keys() override {
    const std::lock_guard lock(mutex_);
    return session_.read(session_.deadline(), [&](Deadline until) {
      session_.send({bare(StoreOp::key_count)}, until);
      return session_.receive<std::int64_t>(until);
    });
  }

  std::vector<std::string> list_keys() override {
    session_.require_current(StoreOp::list_keys);
    const std::lock_guard lock(mutex_);
    return session_.read(session_.deadline(), [&](Deadline until) {
      session_.send({bare(StoreOp::list_keys)}, until);
      std::vector<std::string> keys;
      for (auto left = session_.receive<std::int64_t>(until); left > 0; --left) {
        std::string key = session_.receive_bytes(until);
        if (key.starts_with('/')) keys.push_back(key.substr(1));
      }
      return keys;
    });
  }

  void queue_push(const std::string& key, std::string_view value) override {
    session_.require_current(StoreOp::queue_push);
    const std::lock_guard lock(mutex_);
    session_.write(about(StoreOp::queue_push, key, {std::string(value)}));
  }

  std::string queue_pop(const std::string& key, milliseconds timeout) override {
    const Deadline until = steady_clock::now() + timeout;
    while (true) {
      if (auto value = try_queue_pop(key)) return *value;
      {
        const std::lock_guard lock(mutex_);
        session_.read(until, [&](Deadline) {
          session_.wait_for(about(StoreOp::wait, std::span(&key, 1)), std::span(&key, 1), timeout, until);
          return true;
        });
      }
      if (auto value = try_queue_pop(key)) return *value;
      // It was another's before it was ours, or the key has a value besides and so nobody waits for its queue.
      if (steady_clock::now() >= until) {
        throw Error(ErrorKind::timeout, "waited " + base::human_duration(timeout) +
                                            " for a value in the queue of key '" + key + "' in the store at " +
                                            session_.where());
      }
      std::this_thread::sleep_for(milliseconds(1));
    }
  }

  std::optional<std::string> try_queue_pop(const std::string& key) override {
    session_.require_current(StoreOp::queue_pop);
    const std::lock_guard lock(mutex_);
    return session_.once(StoreOp::queue_pop, key, session_.deadline(),
                         [&](Deadline until) -> std::optional<std::string> {
                           session_.send({about(StoreOp::queue_pop, key)}, until);
                           if (session_.receive<std::int64_t>(until) <= 0) return std::nullopt;
                           return session_.receive_bytes(until);
                         });
  }

  std::int64_t queue_len(const std::string& key) override {
    session_.require_current(StoreOp::queue_len);
    const std::lock_guard lock(mutex_);
    return session_.read(session_.deadline(), [&](Deadline until) {
      session_.send({about(StoreOp::queue_len, key)}, until);
      return session_.receive<std::int64_t>(until);
    });
  }

  void barrier(const std::string& key, int world_size, milliseconds timeout) override {
    if (world_size < 1) throw Error(ErrorKind::invalid_argument, "barrier '" + key + "': a world size below 1");
    if (session_.server().dialect == StoreDialect::legacy) return counted_barrier(key, world_size, timeout);
    const std::lock_guard lock(mutex_);
    session_.once(StoreOp::barrier, key, steady_clock::now() + timeout, [&](Deadline until) {
      session_.wait_for(about(StoreOp::barrier, key, {}, world_size), std::span(&key, 1), timeout, until);
      return true;
    });
  }

 private:
  std::vector<std::string> receive_values(std::size_t count, Deadline until) {
    std::vector<std::string> values(count);
    for (std::string& value : values) value = session_.receive_bytes(until);
    return values;
  }

  // What PyTorch 1.13 does itself, for want of a request for it.
  void counted_barrier(const std::string& key, int world_size, milliseconds timeout) {
    const Deadline until = steady_clock::now() + timeout;
    for (std::int64_t count = add(key, 1); count < world_size; count = add(key, 0)) {
      if (steady_clock::now() >= until) {
        throw Error(ErrorKind::timeout, "waited " + base::human_duration(timeout) + " at barrier '" + key +
                                            "' in the store at " + session_.where() + ": " + std::to_string(count) +
                                            " of " + std::to_string(world_size) + " came");
      }
      std::this_thread::sleep_for(limits::kStoreFirstPause);
    }
  }

  const milliseconds timeout_;
  std::mutex mutex_;
  store::StoreSession session_;
};

}  // namespace

std::shared_ptr<Store> connect_tcp_store(const TcpStoreOptions& options) {
  return std::make_shared<TcpStore>(options);
}

std::shared_ptr<Store> connect_tcp_store(const std::string& host, std::uint16_t port, milliseconds timeout) {
  return connect_tcp_store(TcpStoreOptions{host, port, timeout, std::nullopt, std::nullopt});
}

}  // namespace ddp

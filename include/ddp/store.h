// The rendezvous store is a small key-value table that all ranks of a job see.
#pragma once

#include <ddp/export.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

// Keys have up to 8 KiB and values up to 8 MiB; both may contain any bytes. Every function throws ddp::Error. The kind
// is `timeout` when the deadline passes (the message names the keys), and `unavailable` when the server cannot be
// reached or closed the connection. It is `invalid_argument` for requests that no store accepts. It is thread-safe. A
// call that waits for a key does not block other threads.
//
//   auto store = ddp::connect_tcp_store("node0", 29500, std::chrono::minutes(5));
//   store->set("epoch", "3");
//   if (store->add("arrived", 1) == world_size) store->set("go", "");
//   store->get("go");                               // waits until another process sets it
//
// A new implementation needs only the first six functions. The other functions have default implementations that call
// these six. Functions that wait poll every 10 ms or more often. A queue is stored in keys that begin with its own key
// and "/queue/", so check() does not see it.
class DDP_EXPORT Store {
 public:
  virtual ~Store();

  virtual void set(const std::string& key, std::string_view value) = 0;

  // Returns the value of `key`. Waits for it up to the store's time-out.
  virtual std::string get(const std::string& key) = 0;

  // Adds to a decimal counter that starts at 0; returns the new value. add(key, 0) reads it.
  virtual std::int64_t add(const std::string& key, std::int64_t delta) = 0;

  // Replaces the value if it equals `expected` (an absent key equals ""). Returns the resulting value. If the key is
  // absent and `expected` is not empty, returns `expected` and stores nothing, as PyTorch's store does.
  virtual std::string compare_set(const std::string& key, std::string_view expected, std::string_view desired) = 0;

  // Returns whether all keys exist now. A key exists while it has a value or its queue is not empty.
  virtual bool check(std::span<const std::string> keys) = 0;

  // Deletes the value and returns whether there was one. A queue of that name is kept.
  virtual bool delete_key(const std::string& key) = 0;

  // Returns the time-out of get and multi_get. The default is 5 minutes.
  virtual std::chrono::milliseconds timeout() const;

  // Returns the values of all keys, in order, once all exist.
  virtual std::vector<std::string> multi_get(std::span<const std::string> keys);

  // Returns when all keys exist.
  virtual void wait(std::span<const std::string> keys, std::chrono::milliseconds timeout);

  // Appends to the value of `key`; an absent value counts as empty. The default implementation throws unavailable.
  virtual void append(const std::string& key, std::string_view value);

  // Sets values[i] under keys[i], in this order. Other clients may see some values set and others not yet.
  virtual void multi_set(std::span<const std::string> keys, std::span<const std::string> values);

  // Returns how many keys have a value. A server also counts the key in which PyTorch's clients count themselves. The
  // default implementation counts list_keys().
  virtual std::int64_t num_keys();

  // Returns the keys that have a value, in no particular order. The default implementation throws unavailable.
  virtual std::vector<std::string> list_keys();

  // Appends to the queue of `key`. Every key has a queue besides its value: first in, first out, and each value is
  // popped once.
  virtual void queue_push(const std::string& key, std::string_view value);

  // Removes and returns the first value of the queue. Waits for it if the queue is empty.
  virtual std::string queue_pop(const std::string& key, std::chrono::milliseconds timeout);

  // Removes and returns the first value of the queue, or returns std::nullopt if it is empty now.
  virtual std::optional<std::string> try_queue_pop(const std::string& key);

  virtual std::int64_t queue_len(const std::string& key);

  // Counts its callers under `key`, as text like add(), and returns when there have been `world_size` of them. A key
  // serves one barrier: later callers return at once. A caller that times out is counted nevertheless.
  virtual void barrier(const std::string& key, int world_size, std::chrono::milliseconds timeout);
};

struct TcpStoreOptions {
  std::string host = {};
  std::uint16_t port = 0;
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
  // The client reports these numbers to ddplaunch's server, which can then name the ranks that wait for a key. With a
  // rank, the client can also reconnect to the server after a lost connection.
  std::optional<int> rank = {};
  std::optional<int> world_size = {};
};

// Connects to a store server: ddplaunch's, or that of PyTorch 1.13, 2.5 or later. Retries, with growing pauses, until
// the server answers or the time-out has passed. The same time-out then limits every call.
//
// All threads share one connection. Each thread that waits for a key while others use the store gets one more
// connection.
//
// The client cannot reconnect to PyTorch's server. To ddplaunch's server (if it is still the same process) it
// reconnects, and repeats requests that only read (get, multi_get, check, wait, num_keys, list_keys, queue_len). If the
// server may or may not have carried out a call, that call throws `unavailable` and says so. The next call then
// reconnects. A server does not answer set, append, multi_set and queue_push, so for them the next call throws.
//
// PyTorch's servers lack some requests, which then throw `unavailable`: 1.13's has no append, queues or list_keys;
// queues came with 2.8, list_keys with 2.10, barrier with 2.12.
DDP_EXPORT std::shared_ptr<Store> connect_tcp_store(const TcpStoreOptions& options);
DDP_EXPORT std::shared_ptr<Store> connect_tcp_store(const std::string& host, std::uint16_t port,
                                                    std::chrono::milliseconds timeout);

// Makes a store inside this process, for ranks that are threads and for a world of one. Only memory limits its size.
DDP_EXPORT std::shared_ptr<Store> make_memory_store(std::chrono::milliseconds timeout);

// Opens a store in a file that all users can write and lock, on one node or on a file system that they share (NFS). If
// the file does not exist, it is created for this operating-system user only. The file grows with every change. With
// `world_size`, the last of that many users to leave (when its object is destroyed) removes the file. Without it, and
// after a crash of a user, the file remains.
//
// If a user is killed, no change of it is partly done, except its last multi_set. Waiting calls poll every 10 ms or
// more often, and do not block other calls. A child must not use the store after fork(). Throws `unavailable`, naming
// the file, if it cannot be opened, locked or written (on a full disk nothing is changed). Throws `corrupt` if the file
// is not a store or is damaged.
DDP_EXPORT std::shared_ptr<Store> make_file_store(const std::string& path, std::chrono::milliseconds timeout,
                                                  int world_size = 0);

// Returns a view of `store` in which every key is preceded by `prefix` and "/".
DDP_EXPORT std::shared_ptr<Store> make_prefix_store(std::string prefix, std::shared_ptr<Store> store);

}  // namespace ddp

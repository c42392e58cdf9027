// The rendezvous store: a small key-value table that all ranks of a job see.
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

// Keys up to 8 KiB, values up to 8 MiB, both any bytes. Every function throws ddp::Error: `timeout` when the deadline
// passes (the message names the keys), `unavailable` when the server cannot be reached or closed the connection,
// `invalid_argument` for what no store takes. Thread-safe; a call that waits for a key keeps no other
// thread waiting.
//
//   auto store = ddp::connect_tcp_store("node0", 29500, std::chrono::minutes(5));
//   store->set("epoch", "3");
//   if (store->add("arrived", 1) == world_size) store->set("go", "");
//   store->get("go");                               // waits until somebody sets it
//
// A store of one's own needs the first six functions. The others are made of them: what waits asks again, every 10 ms
// at most; a queue lies in keys that begin with its own and "/queue/", so check() does not see it.
class DDP_EXPORT Store {
 public:
  virtual ~Store();

  virtual void set(const std::string& key, std::string_view value) = 0;

  // The value of `key`, waited for up to the store's time-out.
  virtual std::string get(const std::string& key) = 0;

  // Adds to a decimal counter that starts at 0; returns the new value. add(key, 0) reads it.
  virtual std::int64_t add(const std::string& key, std::int64_t delta) = 0;

  // Replaces the value if it equals `expected` (an absent key equals ""). Returns the value that stands afterwards; if
  // the key is absent and `expected` is not empty, returns `expected` and stores nothing, as PyTorch's store does.
  virtual std::string compare_set(const std::string& key, std::string_view expected, std::string_view desired) = 0;

  // Whether all keys exist now. A key exists while it has a value or its queue is not empty.
  virtual bool check(std::span<const std::string> keys) = 0;

  // Whether there was a value. A queue of that name stays.
  virtual bool delete_key(const std::string& key) = 0;

  // The time-out of get and multi_get. Default: 5 minutes.
  virtual std::chrono::milliseconds timeout() const;

  // The values of all keys, in order, once all exist.
  virtual std::vector<std::string> multi_get(std::span<const std::string> keys);

  // Returns when all keys exist.
  virtual void wait(std::span<const std::string> keys, std::chrono::milliseconds timeout);

  // Lengthens the value of `key`; an absent one is empty. Default: throws unavailable.
  virtual void append(const std::string& key, std::string_view value);

  // Sets values[i] under keys[i], in this order; others may see some set and some not yet.
  virtual void multi_set(std::span<const std::string> keys, std::span<const std::string> values);

  // How many keys have a value. A server counts the key in which PyTorch's clients count themselves as well. Default:
  // as many as list_keys().
  virtual std::int64_t num_keys();

  // The keys that have a value, in no order. Default: throws unavailable.
  virtual std::vector<std::string> list_keys();

  // Every key has a queue besides its value: first in, first out, each value popped once.
  virtual void queue_push(const std::string& key, std::string_view value);

  // The first value of the queue, waited for.
  virtual std::string queue_pop(const std::string& key, std::chrono::milliseconds timeout);

  // The first value of the queue, or nothing if it is empty now.
  virtual std::optional<std::string> try_queue_pop(const std::string& key);

  virtual std::int64_t queue_len(const std::string& key);

  // Counts its callers under `key`, as text like add(), and returns when there have been `world_size` of them. A key
  // serves one barrier: later callers find it open. Who gives up has been counted nevertheless.
  virtual void barrier(const std::string& key, int world_size, std::chrono::milliseconds timeout);
};

struct TcpStoreOptions {
  std::string host = {};
  std::uint16_t port = 0;
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
  // Who we are. Told to ddplaunch's server, which can then say who waits for what; with a rank, the client also finds
  // back to it after a lost connection.
  std::optional<int> rank = {};
  std::optional<int> world_size = {};
};

// A client of a store server: ddplaunch's, or PyTorch's 2.5 or later or 1.13. Tries again, with growing pauses, until
// the server answers or the time-out has passed; the same time-out then bounds every call.
//
// One connection for all threads, and one more for each thread that waits for a key while others use the store.
//
// A lost connection to PyTorch's server is lost for good. To ddplaunch's (if it is the same process still) the client
// connects anew and repeats what only reads (get, multi_get, check, wait, num_keys, list_keys, queue_len). A call that
// may or may not have been carried out throws `unavailable` and says so; the next call connects anew. set, append,
// multi_set and queue_push are not answered by a server: for them, the next call throws.
//
// PyTorch's servers lack some requests: 1.13's has no append, queues or list_keys; queues came with 2.8, list_keys with
// 2.10, barrier with 2.12. `unavailable` then.
DDP_EXPORT std::shared_ptr<Store> connect_tcp_store(const TcpStoreOptions& options);
DDP_EXPORT std::shared_ptr<Store> connect_tcp_store(const std::string& host, std::uint16_t port,
                                                    std::chrono::milliseconds timeout);

// A store inside this process, for ranks that are threads and for a world of one. Memory is its only limit.
DDP_EXPORT std::shared_ptr<Store> make_memory_store(std::chrono::milliseconds timeout);

// A store in a file that all users can write and lock: on one node, or on a file system that they share (NFS). Made
// (for this user alone) if it does not exist; the file grows with every change. With `world_size`, the last of that
// many users to leave (its object is destroyed) removes the file; without, and after a crash of one of them, it stays.
// A user that is killed leaves nothing half done, but its last multi_set. Waiting asks again every 10 ms at most, and
// keeps no other call waiting. Not for use after fork() in the child. Throws `unavailable`, naming the file, when it
// cannot be opened, locked or written (a full disk; then nothing is changed), `corrupt` when it is no store or damaged.
DDP_EXPORT std::shared_ptr<Store> make_file_store(const std::string& path, std::chrono::milliseconds timeout,
                                                  int world_size = 0);

// A view of `store` in which every key is preceded by `prefix` and "/".
DDP_EXPORT std::shared_ptr<Store> make_prefix_store(std::string prefix, std::shared_ptr<Store> store);

}  // namespace ddp

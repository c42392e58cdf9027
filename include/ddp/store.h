// The rendezvous store: a small key-value table that all ranks of a job see.
#pragma once

#include <ddp/version.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

// Keys up to 8 KiB, values up to 8 MiB, both any bytes. Every function throws ddp::Error: `timeout` when the deadline
// passes (the message names the keys), `unavailable` when the server cannot be reached or closed the connection.
// Thread-safe; a call that waits makes other calls on the same object wait too.
//
//   auto store = ddp::connect_tcp_store("node0", 29500, std::chrono::minutes(5));
//   store->set("epoch", "3");
//   if (store->add("arrived", 1) == world_size) store->set("go", "");
//   store->get("go");                               // waits until somebody sets it
class DDP_EXPORT Store {
 public:
  virtual ~Store() = default;

  virtual void set(const std::string& key, std::string_view value) = 0;

  // The value of `key`, waited for up to the store's time-out.
  virtual std::string get(const std::string& key) = 0;

  // The values of all keys, in order, once all exist.
  virtual std::vector<std::string> multi_get(std::span<const std::string> keys) = 0;

  // Adds to a decimal counter that starts at 0; returns the new value. add(key, 0) reads it.
  virtual std::int64_t add(const std::string& key, std::int64_t delta) = 0;

  // Replaces the value if it equals `expected` (an absent key equals ""). Returns the value that stands afterwards; if
  // the key is absent and `expected` is not empty, returns `expected` and stores nothing, as PyTorch's store does.
  virtual std::string compare_set(const std::string& key, std::string_view expected, std::string_view desired) = 0;

  // Whether all keys exist now.
  virtual bool check(std::span<const std::string> keys) = 0;

  // Returns when all keys exist.
  virtual void wait(std::span<const std::string> keys, std::chrono::milliseconds timeout) = 0;

  // Whether there was such a key.
  virtual bool delete_key(const std::string& key) = 0;

  // The time-out of get and multi_get.
  virtual std::chrono::milliseconds timeout() const = 0;
};

// A client of a store server (ddplaunch's or PyTorch's 2.5 or later). Tries again, with growing pauses, until the
// server answers or `timeout` has passed; the same time-out then bounds every call.
DDP_EXPORT std::shared_ptr<Store> connect_tcp_store(const std::string& host, std::uint16_t port,
                                                    std::chrono::milliseconds timeout);

// A store inside this process, for ranks that are threads and for a world of one. Memory is its only limit.
DDP_EXPORT std::shared_ptr<Store> make_memory_store(std::chrono::milliseconds timeout);

// A view of `store` in which every key is preceded by `prefix` and "/".
DDP_EXPORT std::shared_ptr<Store> make_prefix_store(std::string prefix, std::shared_ptr<Store> store);

}  // namespace ddp

// StoreReport describes the state of a store server that is inspected. There is no I/O here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::wire {

struct StoreReport {
  struct Key {
    std::string name;
    std::int64_t bytes = 0;    // bytes of its value, or of all values of its queue
    std::int64_t queued = -1;  // values in the queue; -1 if there is no queue

    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Client {
    std::string peer;                  // "127.0.0.1:40312"
    std::int64_t rank = -1;            // the rank that it sent; -1 if none
    std::string name;                  // host name and process, as the client reports them
    std::int64_t connected_ms = 0;     // milliseconds since it connected
    std::int64_t waiting_ms = -1;      // milliseconds since its wait began; -1 if it does not wait
    std::int64_t awaited_keys = 0;     // number of keys that it waits for
    std::vector<std::string> awaited;  // the first of these keys
    std::int64_t held_bytes = 0;       // incomplete requests and unread replies

    friend bool operator==(const Client&, const Client&) = default;
  };

  std::int64_t key_count = 0;  // includes queues
  std::int64_t table_bytes = 0;
  std::int64_t client_count = 0;
  std::vector<Key> keys;        // the first by name, or all if there are not too many
  std::vector<Client> clients;  // waiting clients first, the longest wait first; then the others

  friend bool operator==(const StoreReport&, const StoreReport&) = default;
};

std::string encode(const StoreReport& report);

// Returns std::nullopt if the bytes are no report.
std::optional<StoreReport> decode_store_report(std::string_view bytes);

}  // namespace ddp::wire

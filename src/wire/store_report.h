// StoreReport: what a store server says of itself when it is inspected. No I/O.
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
    std::int64_t bytes = 0;    // of its value; of a queue: of all its values
    std::int64_t queued = -1;  // values in the queue; -1: no queue

    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Client {
    std::string peer;                  // "127.0.0.1:40312"
    std::int64_t rank = -1;            // -1: it has not said
    std::string name;                  // host and process, as it says
    std::int64_t connected_ms = 0;     // since then
    std::int64_t waiting_ms = -1;      // -1: it does not wait
    std::int64_t awaited_keys = 0;     // how many it waits for
    std::vector<std::string> awaited;  // the first of them
    std::int64_t held_bytes = 0;       // incomplete requests and unread replies

    friend bool operator==(const Client&, const Client&) = default;
  };

  std::int64_t key_count = 0;  // queues too
  std::int64_t table_bytes = 0;
  std::int64_t client_count = 0;
  std::vector<Key> keys;        // the first ones by name; all, if there are not too many
  std::vector<Client> clients;  // those that wait, longest first; then the others

  friend bool operator==(const StoreReport&, const StoreReport&) = default;
};

std::string encode(const StoreReport& report);

// Nothing if the bytes are no report.
std::optional<StoreReport> decode_store_report(std::string_view bytes);

}  // namespace ddp::wire

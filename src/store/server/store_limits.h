// StoreLimits holds the limits of a store server. The table gives their names for --store-limit. There is no I/O here.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "store/limits.h"
#include "wire/limits.h"
#include "wire/store_parser.h"

namespace ddp::store {

// A client that exceeds a limit loses its connection; other clients are not affected. A limit is the largest allowed
// size.
struct StoreLimits {
  std::size_t key_bytes = limits::kStoreKeyBytes;
  std::size_t value_bytes = limits::kStoreValueBytes;
  std::size_t keys_per_request = limits::kStoreKeysPerRequest;
  std::size_t request_bytes = limits::kStoreRequestBytes;  // a complete request, or an incomplete one that is kept
  std::size_t table_bytes = limits::kStoreTableBytes;      // all keys and values
  std::size_t keys = limits::kStoreKeys;
  std::size_t unsent_bytes = limits::kStoreUnsentBytes;    // replies that one client has not read
  std::size_t buffer_bytes = limits::kStoreBufferBytes;    // incomplete requests and unread replies of all clients
  std::size_t waiting_bytes = limits::kStoreWaitingBytes;  // keys that all clients wait for
  std::size_t connections = limits::kStoreConnections;

  wire::StoreRequestLimits of_requests() const { return {key_bytes, value_bytes, keys_per_request, request_bytes}; }

  friend bool operator==(const StoreLimits&, const StoreLimits&) = default;
};

struct StoreLimitName {
  std::string_view name;  // "table-bytes"
  std::size_t StoreLimits::*member;
  std::size_t maximum;  // the minimum is 1
  bool is_size;         // true for bytes, false for a number
  std::string_view what;
};

// Returns the limits in the order of the documentation.
std::span<const StoreLimitName> store_limit_names();

// Applies text such as "keys=1000" or "table-bytes=64MiB,connections=100" to `limits`. Returns the error, if any, as a
// continuation of the text: " is not …".
std::optional<std::string> set_store_limits(StoreLimits& limits, std::string_view text);

// Returns the limits that differ from the default, as set_store_limits() reads them:
// "table-bytes=64MiB,connections=100". The text is empty if there are none.
std::string changed_store_limits(const StoreLimits& limits);

}  // namespace ddp::store

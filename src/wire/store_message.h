// These are the requests of the rendezvous store: PyTorch's TCPStore protocol in its two dialects.
// docs/development/protocol.md describes the protocol. The table in store_forms.h is the only other description. There
// is no I/O here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::wire {

// `legacy` is the dialect of PyTorch up to 2.1 (1.13's numbering). `current` is that of 2.2 and later, announced by a
// VALIDATE request.
enum class StoreDialect { legacy, current };

enum class StoreOp {
  validate,
  ping,
  set,
  compare_set,
  get,
  add,
  check,
  wait,
  key_count,
  delete_key,
  append,
  multi_get,
  multi_set,
  cancel_wait,
  watch_key,
  queue_push,
  queue_pop,
  queue_len,
  list_keys,
  barrier,
  // The next requests are ddplaunch's extensions, which only its server supports: see kStoreExtensionsKey.
  hello,
  explain,
  inspect,
  auth_hello,
  auth_proof,
  control,
};

// CHECK of only this key succeeds on ddplaunch's server and on no other, because PyTorch's keys begin with a slash,
// except "init/". The key is in no table.
inline constexpr std::string_view kStoreExtensionsKey = "ddplaunch/extensions";

inline constexpr std::uint32_t kStoreMagic = 0x3C85F7CE;

// Describes one request. `op` determines which members are used; see the table of forms.
struct StoreRequest {
  StoreOp op = StoreOp::ping;
  std::vector<std::string> keys;
  std::vector<std::string> values;
  std::int64_t delta = 0;    // for add; the world size for barrier, the rank for hello
  std::uint32_t number = 0;  // the magic for validate, the nonce for ping, the world size for hello

  friend bool operator==(const StoreRequest&, const StoreRequest&) = default;
};

// These are the reply bytes of WAIT (and BARRIER), CHECK and CANCEL_WAIT.
inline constexpr std::uint8_t kStoreReady = 0;     // for CHECK, all keys are present
inline constexpr std::uint8_t kStoreNotReady = 1;  // for CHECK, a key is missing
inline constexpr std::uint8_t kStoreStopWaiting = 0;
inline constexpr std::uint8_t kStoreWaitCanceled = 1;
// These are the reply of WATCH_KEY, and the kinds of change that the server reports afterwards.
inline constexpr std::uint8_t kStoreWatching = 3;
inline constexpr std::uint8_t kStoreKeyUpdated = 0;
inline constexpr std::uint8_t kStoreKeyCreated = 1;
inline constexpr std::uint8_t kStoreKeyDeleted = 2;

// Describes the rule that the connection broke. The connection must be closed.
struct StoreViolation {
  std::string reason;
};

// Returns the request's name for messages, such as "WAIT".
std::string_view to_string(StoreOp op);

// Encodes the request in the given dialect. Aborts (a bug) if the dialect lacks the operation.
std::string encode(const StoreRequest& request, StoreDialect dialect = StoreDialect::current);

// These functions append parts of replies: host-order integers, and bytes as a u64 length and data.
void put_u8(std::string& out, std::uint8_t value);
void put_u32(std::string& out, std::uint32_t value);
void put_i64(std::string& out, std::int64_t value);
void put_bytes(std::string& out, std::string_view bytes);

}  // namespace ddp::wire

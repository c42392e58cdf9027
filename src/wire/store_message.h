// The requests of the rendezvous store: PyTorch's TCPStore protocol in its two dialects. docs/development/protocol.md
// is the description; the table in store_forms.h is its only other place. No I/O here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::wire {

// legacy: PyTorch up to 2.1 (1.13's numbering). current: 2.2 and later, announced by a VALIDATE request.
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
  // Our own, which only our server knows: see kStoreExtensionsKey.
  hello,
  explain,
  inspect,
  auth_hello,
  auth_proof,
  control,
};

// CHECK of this key alone is ready on our server and on no other (PyTorch's keys begin with a slash, but for "init/").
// It is in no table.
inline constexpr std::string_view kStoreExtensionsKey = "ddplaunch/extensions";

inline constexpr std::uint32_t kStoreMagic = 0x3C85F7CE;

// One request. Which members count depends on `op`; see the form table.
struct StoreRequest {
  StoreOp op = StoreOp::ping;
  std::vector<std::string> keys;
  std::vector<std::string> values;
  std::int64_t delta = 0;    // add; barrier: the world size; hello: the rank
  std::uint32_t number = 0;  // validate: the magic; ping: the nonce; hello: the world size

  friend bool operator==(const StoreRequest&, const StoreRequest&) = default;
};

// Reply bytes of WAIT (and BARRIER), CHECK and CANCEL_WAIT.
inline constexpr std::uint8_t kStoreReady = 0;     // CHECK: all present
inline constexpr std::uint8_t kStoreNotReady = 1;  // CHECK: something is missing
inline constexpr std::uint8_t kStoreStopWaiting = 0;
inline constexpr std::uint8_t kStoreWaitCanceled = 1;
// WATCH_KEY: the reply, and the kinds of change that are told afterwards.
inline constexpr std::uint8_t kStoreWatching = 3;
inline constexpr std::uint8_t kStoreKeyUpdated = 0;
inline constexpr std::uint8_t kStoreKeyCreated = 1;
inline constexpr std::uint8_t kStoreKeyDeleted = 2;

// The connection broke a rule and must be closed.
struct StoreViolation {
  std::string reason;
};

// "WAIT" and so on, for messages.
std::string_view to_string(StoreOp op);

// The request in the given dialect. Aborts (a bug) if the dialect lacks the operation.
std::string encode(const StoreRequest& request, StoreDialect dialect = StoreDialect::current);

// Building blocks of replies: host-order integers; bytes as u64 length and data.
void put_u8(std::string& out, std::uint8_t value);
void put_u32(std::string& out, std::uint32_t value);
void put_i64(std::string& out, std::int64_t value);
void put_bytes(std::string& out, std::string_view bytes);

}  // namespace ddp::wire

// StoreRequestParser splits one connection's bytes into requests. There is no I/O here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "wire/limits.h"
#include "wire/store_message.h"

namespace ddp::wire {

struct StoreRequestLimits {
  std::size_t key_bytes = limits::kStoreKeyBytes;
  std::size_t value_bytes = limits::kStoreValueBytes;
  std::size_t keys_per_request = limits::kStoreKeysPerRequest;
  std::size_t request_bytes = limits::kStoreRequestBytes;
};

struct StoreNeedsMore {};

// Checks a length before it stores anything, and allocates memory only for bytes that have arrived, not for announced
// ones. It reads every byte once, in however many pieces the bytes arrive. It is not thread-safe.
//
//   parser.feed(bytes);
//   for (auto next = parser.next(); auto* request = std::get_if<StoreRequest>(&next); next = parser.next()) …
class StoreRequestParser {
 public:
  explicit StoreRequestParser(const StoreRequestLimits& limits = {}) : limits_(limits) {}

  // The limits apply from the next field on.
  void set_limits(const StoreRequestLimits& limits) { limits_ = limits; }

  void feed(std::string_view bytes);

  // Returns the next complete request, or StoreNeedsMore if there is none yet. After a broken rule it always returns
  // StoreViolation.
  std::variant<StoreRequest, StoreNeedsMore, StoreViolation> next();

  // The dialect is known once the first bytes of the connection have been read.
  std::optional<StoreDialect> dialect() const { return dialect_; }

  // Returns the memory held for incomplete requests.
  std::size_t held_bytes() const { return buffer_.capacity() + request_bytes_; }

 private:
  enum class Progress { done, needs_more, violated };

  Progress begin_request();
  Progress read_fields();
  Progress read_list(bool with_values);
  Progress read_text(std::size_t limit, const char* what, std::vector<std::string>& into);
  template <typename Integer>
  Progress read_integer(Integer& value);
  Progress violate(std::string reason);
  std::string_view rest() const { return std::string_view(buffer_).substr(consumed_); }

  StoreRequestLimits limits_;
  std::string buffer_;  // received bytes that are not parsed yet, from consumed_ on
  std::size_t consumed_ = 0;
  std::optional<StoreDialect> dialect_;
  std::optional<StoreViolation> violation_;

  // These members describe the current request.
  const struct StoreForm* form_ = nullptr;  // null if there is none
  StoreRequest request_;
  std::size_t field_ = 0;                   // the next field of its form
  std::optional<std::uint64_t> list_left_;  // entries of the list still to be parsed
  bool value_is_next_ = false;              // true if the value of such an entry is next
  std::size_t request_bytes_ = 0;           // memory of its parsed part
};

}  // namespace ddp::wire

// StoreRequestParser: one connection's bytes, cut into requests. No I/O.
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

// A length is checked before anything is stored for it, and memory is taken for bytes that have come, not for those
// that are announced. Every byte is looked at once, in however many pieces it comes. Not thread-safe.
//
//   parser.feed(bytes);
//   for (auto next = parser.next(); auto* request = std::get_if<StoreRequest>(&next); next = parser.next()) …
class StoreRequestParser {
 public:
  explicit StoreRequestParser(const StoreRequestLimits& limits = {}) : limits_(limits) {}

  // Holds from the next field on.
  void set_limits(const StoreRequestLimits& limits) { limits_ = limits; }

  void feed(std::string_view bytes);

  // The next whole request; StoreNeedsMore when there is none yet; StoreViolation for ever after a broken rule.
  std::variant<StoreRequest, StoreNeedsMore, StoreViolation> next();

  // Known once the first bytes of the connection have been seen.
  std::optional<StoreDialect> dialect() const { return dialect_; }

  // Memory that is held for requests that are not whole.
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
  std::string buffer_;  // what has come and was not yet understood, from consumed_ on
  std::size_t consumed_ = 0;
  std::optional<StoreDialect> dialect_;
  std::optional<StoreViolation> violation_;

  // The request under way.
  const struct StoreForm* form_ = nullptr;  // null: none
  StoreRequest request_;
  std::size_t field_ = 0;                   // the next one of its form
  std::optional<std::uint64_t> list_left_;  // entries of the list that have yet to come
  bool value_is_next_ = false;              // of such an entry
  std::size_t request_bytes_ = 0;           // memory for what has been understood of it
};

}  // namespace ddp::wire

#include "store/local/file_log.h"

#include <cstring>

#include "base/hash.h"
#include "wire/limits.h"
#include "wire/store_message.h"

namespace ddp::store {
namespace {

constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kFrameBytes = kLengthBytes + 8;
constexpr std::size_t kKeyLengthBytes = 8;
constexpr std::size_t kLongestBody = 1 + kKeyLengthBytes + limits::kStoreKeyBytes + limits::kStoreValueBytes;

// The checksum covers the length too, because a corrupt length would point to a wrong record.
std::int64_t checksum(std::string_view length, std::string_view body) {
  base::Fnv1a64 hash;
  hash.update(length);
  hash.update(body);
  return static_cast<std::int64_t>(hash.value());
}

template <typename Integer>
Integer integer_at(std::string_view bytes, std::size_t position) {
  Integer value{};
  std::memcpy(&value, bytes.data() + position, sizeof value);
  return value;
}

std::variant<LogEntry, LogEnd, LogCorrupt> decode(std::string_view body, std::size_t bytes) {
  if (body.empty()) return LogCorrupt{};
  const auto kind = static_cast<std::uint8_t>(body[0]);
  if (kind == static_cast<std::uint8_t>(UserChange::joined) || kind == static_cast<std::uint8_t>(UserChange::left)) {
    if (body.size() != 1) return LogCorrupt{};
    return LogEntry{static_cast<UserChange>(kind), bytes};
  }
  if (kind < static_cast<std::uint8_t>(TableChange::Kind::set) ||
      kind > static_cast<std::uint8_t>(TableChange::Kind::pop) || body.size() < 1 + kKeyLengthBytes) {
    return LogCorrupt{};
  }
  const auto key_length = integer_at<std::uint64_t>(body, 1);
  body.remove_prefix(1 + kKeyLengthBytes);
  if (key_length > body.size()) return LogCorrupt{};
  return LogEntry{TableChange{static_cast<TableChange::Kind>(kind), std::string(body.substr(0, key_length)),
                              std::string(body.substr(key_length))},
                  bytes};
}

}  // namespace

std::string encode(const LogRecord& record) {
  std::string body;
  if (const auto* change = std::get_if<TableChange>(&record)) {
    wire::put_u8(body, static_cast<std::uint8_t>(change->kind));
    wire::put_bytes(body, change->key);
    body += change->value;
  } else {
    wire::put_u8(body, static_cast<std::uint8_t>(std::get<UserChange>(record)));
  }
  std::string out;
  wire::put_u32(out, static_cast<std::uint32_t>(body.size()));
  wire::put_i64(out, checksum(out, body));
  return out + body;
}

std::variant<LogEntry, LogEnd, LogCorrupt> next_record(std::string_view bytes) {
  if (bytes.size() < kLengthBytes) return LogEnd{};
  const std::size_t length = integer_at<std::uint32_t>(bytes, 0);
  if (length > kLongestBody) return LogCorrupt{};
  if (bytes.size() < kFrameBytes + length) return LogEnd{};
  const std::string_view body = bytes.substr(kFrameBytes, length);
  if (checksum(bytes.substr(0, kLengthBytes), body) != integer_at<std::int64_t>(bytes, kLengthBytes)) {
    return LogCorrupt{};
  }
  return decode(body, kFrameBytes + length);
}

}  // namespace ddp::store

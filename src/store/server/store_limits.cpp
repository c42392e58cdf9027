#include "store/server/store_limits.h"

#include <algorithm>
#include <vector>

#include "base/text.h"

namespace ddp::store {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kGiB = std::size_t{1} << 30;

// clang-format off
constexpr StoreLimitName kNames[] = {
    {"key-bytes", &StoreLimits::key_bytes, kMiB, true, "a key"},
    {"value-bytes", &StoreLimits::value_bytes, kGiB, true, "a value"},
    {"keys-per-request", &StoreLimits::keys_per_request, kMiB, false, "keys in a request"},
    {"request-bytes", &StoreLimits::request_bytes, 4 * kGiB, true, "a request"},
    {"table-bytes", &StoreLimits::table_bytes, 1024 * kGiB, true, "all keys and values"},
    {"keys", &StoreLimits::keys, kGiB, false, "keys"},
    {"unsent-bytes", &StoreLimits::unsent_bytes, 4 * kGiB, true, "replies that a client does not read"},
    {"buffer-bytes", &StoreLimits::buffer_bytes, 1024 * kGiB, true,
     "incomplete requests and unread replies of all clients"},
    {"waiting-bytes", &StoreLimits::waiting_bytes, 1024 * kGiB, true, "the keys that clients wait for"},
    {"connections", &StoreLimits::connections, kMiB, false, "connections"},
};
// clang-format on

// Returns the value as text that can be parsed again, with the largest unit that leaves no remainder.
std::string exact(const StoreLimitName& limit, std::size_t value) {
  static constexpr std::string_view kUnits[] = {"", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; limit.is_size && value % 1024 == 0 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return std::to_string(value) + std::string(kUnits[unit]);
}

std::optional<std::string> set_one(StoreLimits& limits, const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) return " is not of the form NAME=VALUE. Example: table-bytes=64MiB.";
  const std::string name = text.substr(0, equals);
  const std::string value = text.substr(equals + 1);
  const auto* limit =
      std::find_if(std::begin(kNames), std::end(kNames), [&](const StoreLimitName& each) { return each.name == name; });
  if (limit == std::end(kNames)) {
    std::vector<std::string> known;
    for (const StoreLimitName& each : kNames) known.emplace_back(each.name);
    return ": the store has no limit " + name + ". Use one of " + base::join(known, ", ") + ".";
  }
  std::optional<std::uint64_t> number;
  if (limit->is_size) {
    number = base::parse_bytes(value);
  } else if (const auto count = base::parse_integer(value, 1, static_cast<std::int64_t>(limit->maximum))) {
    number = static_cast<std::uint64_t>(*count);
  }
  if (!number || *number < 1 || *number > limit->maximum) {
    return ": " + name + " is not a " + (limit->is_size ? "size" : "number") + " from 1 to " +
           exact(*limit, limit->maximum) + (limit->is_size ? ". Example: " + name + "=64KiB." : ".");
  }
  limits.*limit->member = static_cast<std::size_t>(*number);
  return std::nullopt;
}

}  // namespace

std::span<const StoreLimitName> store_limit_names() {
  return kNames;
}

std::optional<std::string> set_store_limits(StoreLimits& limits, std::string_view text) {
  for (const std::string& part : base::split(text, ',')) {
    if (auto mistake = set_one(limits, part)) return mistake;
  }
  return std::nullopt;
}

std::string changed_store_limits(const StoreLimits& limits) {
  const StoreLimits defaults;
  std::vector<std::string> parts;
  for (const StoreLimitName& limit : kNames) {
    const std::size_t value = limits.*limit.member;
    if (value != defaults.*limit.member) parts.push_back(std::string(limit.name) + "=" + exact(limit, value));
  }
  return base::join(parts, ",");
}

}  // namespace ddp::store

#include "runtime/checkpoint/on_rank_zero.h"

#include <ddp/error.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

namespace ddp::internal {
namespace {

using Json = nlohmann::json;

std::string to_bytes(const Json& value) {
  const std::vector<std::uint8_t> bytes = Json::to_cbor(value);
  return {bytes.begin(), bytes.end()};
}

// Returns {"kind", "message"} of the exception that `action` throws, or std::nullopt if it succeeds.
std::optional<Json> failure_of(const std::function<void()>& action) {
  try {
    action();
    return std::nullopt;
  } catch (const Error& error) {
    return Json{{"kind", static_cast<int>(error.kind())}, {"message", error.what()}};
  } catch (const std::exception& error) {  // for example no memory: the other ranks must not wait forever
    return Json{{"kind", static_cast<int>(ErrorKind::internal)}, {"message", error.what()}};
  }
}

[[noreturn]] void rethrow(const Json& failure, const std::string& before = "") {
  throw Error(static_cast<ErrorKind>(failure["kind"].get<int>()), before + failure["message"].get<std::string>());
}

}  // namespace

std::string on_rank_zero(const ProcessGroup& group, const std::function<std::string()>& action) {
  Json outcome;
  if (group.rank() == 0) {
    std::string result;
    const auto failure = failure_of([&] { result = action(); });
    outcome = failure ? *failure : Json{{"result", Json::binary({result.begin(), result.end()})}};
  }
  outcome = Json::from_cbor(group.broadcast_bytes(group.rank() == 0 ? to_bytes(outcome) : "", 0));
  if (outcome.contains("message")) rethrow(outcome);
  const auto& result = outcome["result"].get_binary();
  return {result.begin(), result.end()};
}

void on_every_rank(const ProcessGroup& group, std::optional<std::chrono::milliseconds> timeout,
                   const std::function<void()>& action) {
  const auto failure = failure_of(action);
  std::array<std::uint8_t, 1> own = {static_cast<std::uint8_t>(failure ? 1 : 0)};
  std::vector<std::uint8_t> all(static_cast<std::size_t>(group.size()));
  group.all_gather(all, own, {.timeout = timeout, .name = "checkpoint"}).wait();
  const auto failed = std::find(all.begin(), all.end(), 1);
  if (failed == all.end()) return;
  const auto rank = static_cast<int>(failed - all.begin());
  const Json theirs = Json::from_cbor(group.broadcast_bytes(group.rank() == rank ? to_bytes(*failure) : "", rank));
  rethrow(theirs, group.size() > 1 ? "rank " + std::to_string(rank) + ": " : "");
}

std::string encode_texts(const std::map<std::string, std::string>& texts) {
  return to_bytes(texts);
}

std::map<std::string, std::string> parse_texts(const std::string& bytes) {
  return Json::from_cbor(bytes).get<std::map<std::string, std::string>>();
}

}  // namespace ddp::internal

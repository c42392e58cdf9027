#include "wire/control_message.h"

#include <nlohmann/json.hpp>

#include <array>

namespace ddp::wire {

// Each field once, for both directions.
#define DDP_FIELDS NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE
DDP_FIELDS(Cause, text, node, exit_code, signal, is_victim, may_restart)
DDP_FIELDS(NodeHello, version, job, host, node_rank, workers, nodes, same, alike)
DDP_FIELDS(NodeFailed, attempt, cause)
DDP_FIELDS(NodeEnded, attempt)
DDP_FIELDS(HubRefuses, why)
DDP_FIELDS(HubWaits, text)
DDP_FIELDS(HubBegins, attempt, node_rank, node_count, first_rank, world_size, nodes)
DDP_FIELDS(HubEnds, attempt, cause)
DDP_FIELDS(HubRestarts, text)
DDP_FIELDS(HubIsDone, cause)
#undef DDP_FIELDS

namespace {

using Json = nlohmann::json;

// In the order of the variant.
constexpr std::array kNames = {"hello", "failed", "ended", "beat",     "refuses",
                               "waits", "begins", "ends",  "restarts", "done"};
static_assert(kNames.size() == std::variant_size_v<ControlMessage>);

void to_json(Json& json, const Beat&) {
  json = Json::object();
}
void from_json(const Json&, Beat&) {}

template <std::size_t I = 0>
std::optional<ControlMessage> decode_as(const std::string& name, const Json& body) {
  if constexpr (I < kNames.size()) {
    if (name != kNames[I]) return decode_as<I + 1>(name, body);
    std::variant_alternative_t<I, ControlMessage> message{};
    from_json(body, message);
    return message;
  }
  return std::nullopt;
}

}  // namespace

std::string encode(const ControlMessage& message) {
  const Json body = std::visit(
      [](const auto& specific) {
        Json json;
        to_json(json, specific);
        return json;
      },
      message);
  return Json{{"is", kNames.at(message.index())}, {"of", body}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<ControlMessage> decode_control(std::string_view bytes) {
  try {
    const Json json = Json::parse(bytes);
    return decode_as(json.at("is").get<std::string>(), json.at("of"));
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

}  // namespace ddp::wire

#include "wire/control_message.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

#include "wire/limits.h"

namespace ddp::wire {

NLOHMANN_JSON_SERIALIZE_ENUM(Subject, {{Subject::nothing, "nothing"},
                                       {Subject::ranks, "ranks"},
                                       {Subject::evidence, "evidence"},
                                       {Subject::output, "output"},
                                       {Subject::errors, "errors"},
                                       {Subject::last_evidence, "last evidence"},
                                       {Subject::stacks, "stacks"},
                                       {Subject::records, "records"},
                                       {Subject::usage, "usage"}})

// The first entry also stands for unknown names, which another version may send: they count as certain.
NLOHMANN_JSON_SERIALIZE_ENUM(Knowledge, {{Knowledge::certain, "certain"},
                                         {Knowledge::disputed, "disputed"},
                                         {Knowledge::secondary, "secondary"}})

// The first entry also stands for unknown names.
NLOHMANN_JSON_SERIALIZE_ENUM(CauseCode, {{CauseCode::program, "program"},
                                         {CauseCode::none, "none"},
                                         {CauseCode::repeated_error, "repeated_error"},
                                         {CauseCode::out_of_memory, "out_of_memory"},
                                         {CauseCode::gpu_out_of_memory, "gpu_out_of_memory"},
                                         {CauseCode::hardware, "hardware"},
                                         {CauseCode::killed, "killed"},
                                         {CauseCode::lost_rank, "lost_rank"},
                                         {CauseCode::hang, "hang"},
                                         {CauseCode::cannot_start, "cannot_start"},
                                         {CauseCode::preempted, "preempted"},
                                         {CauseCode::interrupted, "interrupted"},
                                         {CauseCode::lost_node, "lost_node"},
                                         {CauseCode::launcher, "launcher"}})

NLOHMANN_JSON_SERIALIZE_ENUM(Progress,
                             {{Progress::unknown, "unknown"}, {Progress::none, "none"}, {Progress::some, "some"}})

NLOHMANN_JSON_SERIALIZE_ENUM(StateKind, {{StateKind::none, "none"},
                                         {StateKind::early, "early"},
                                         {StateKind::final, "final"},
                                         {StateKind::final_moved, "final, moved"},
                                         {StateKind::whole, "whole"}})

// Each field is listed once, for both directions.
#define DDP_FIELDS NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE
DDP_FIELDS(Cause, text, node, exit_code, signal, knowledge, lost_peer, may_restart, not_restarted, exit_timed_out,
           gave_up, has_saved, is_urgent, code, error)
DDP_FIELDS(Successor, node_rank, address, port)
DDP_FIELDS(Electorate, attempt, nodes, leader, gone)
DDP_FIELDS(Membership, attempt, node_rank)
DDP_FIELDS(RestartHistory, job_began, counted, in_vain, last_counts, last_is_seen, is_repeated, last_error, last_step)
DDP_FIELDS(Standing, job_key, electorate, successors, history)
DDP_FIELDS(Vote, job_key, attempt, electorate, history, memberships, has_ended)
DDP_FIELDS(NodeHello, version, job, host, node_rank, workers, nodes, same, alike, monotonic, time_of_day, port, vote)
DDP_FIELDS(NodeFailed, attempt, cause)
DDP_FIELDS(NodeLeft, attempt, rank)
DDP_FIELDS(KeptState, step, bytes, key, kind, attempt, rank, world, area, place)
DDP_FIELDS(StatePlace, area, place)
DDP_FIELDS(RankRestore, own, shared, whole)
DDP_FIELDS(StateTransfer, from, to, from_place, to_place, bytes)
DDP_FIELDS(RestorePlan, attempt, step, lost_steps, image, ranks, transfers)
DDP_FIELDS(NodeEnded, attempt, progress, was_asked_to_save, kept)
DDP_FIELDS(NodeShows, attempt, what)  // the text follows the JSON
DDP_FIELDS(NodeHeartbeat, attempt, electorate, sent_at)
DDP_FIELDS(CoordinatorRefuses, why, job_key)
DDP_FIELDS(CoordinatorWaits, text, is_spare, standing)
DDP_FIELDS(CoordinatorBegins, attempt, node_rank, node_count, first_rank, world_size, nodes, name, may_restart,
           image_cost, restore, standing)
DDP_FIELDS(CoordinatorAsks, attempt, what, sent_at)
DDP_FIELDS(CoordinatorEnds, attempt, cause)
DDP_FIELDS(CoordinatorRestarts, text)
DDP_FIELDS(CoordinatorIsElsewhere, job, address, port)
DDP_FIELDS(CoordinatorIsDone, cause)
#undef DDP_FIELDS

namespace {

using Json = nlohmann::json;

// The names are in the order of the variant.
constexpr std::array kNames = {"hello", "failed", "left", "ended", "shows",    "heartbeat", "refuses",
                               "waits", "begins", "asks", "ends",  "restarts", "elsewhere", "done"};
static_assert(kNames.size() == std::variant_size_v<ControlMessage>);

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

std::string bytes_to_text(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80) text += static_cast<char>(0xc0 | (byte >> 6));
    text += static_cast<char>(byte >= 0x80 ? 0x80 | (byte & 0x3f) : byte);
  }
  return text;
}

std::string text_to_bytes(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto first = static_cast<unsigned char>(text[i]);
    if (first < 0x80) {
      bytes += text[i];
    } else if ((first & 0xfc) == 0xc0 && i + 1 < text.size()) {
      bytes += static_cast<char>(((first & 0x03) << 6) | (static_cast<unsigned char>(text[++i]) & 0x3f));
    } else if ((first & 0xc0) == 0xc0) {
      bytes += '?';  // a lead byte; its continuation bytes are skipped
    }
  }
  return bytes;
}

std::string name_of(CauseCode code) {
  return Json(code).get<std::string>();
}

std::string_view name_of(const ControlMessage& message) {
  return kNames.at(message.index());
}

std::string encode(const ControlMessage& message) {
  const Json body = std::visit(
      [](const auto& specific) {
        Json json;
        to_json(json, specific);
        return json;
      },
      message);
  const Json whole{{"is", name_of(message)}, {"of", body}};
  std::string bytes = whole.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (const auto* shows = std::get_if<NodeShows>(&message)) bytes += '\n' + shows->text;
  return bytes;
}

std::optional<ControlMessage> decode_control(std::string_view bytes) {
  try {
    const std::size_t end = bytes.find('\n');
    if (std::min(end, bytes.size()) > limits::kControlJsonBytes) return std::nullopt;
    const Json json = Json::parse(bytes.substr(0, end));
    auto message = decode_as(json.at("is").get<std::string>(), json.at("of"));
    if (auto* shows = message ? std::get_if<NodeShows>(&*message) : nullptr; shows != nullptr) {
      if (end == std::string_view::npos) return std::nullopt;
      shows->text = bytes.substr(end + 1);
    }
    return message;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

}  // namespace ddp::wire

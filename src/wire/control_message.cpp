#include "wire/control_message.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

#include "wire/json_fields.h"
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
                                       {Subject::usage, "usage"},
                                       {Subject::proof, "proof"},
                                       {Subject::no_proof, "no proof"}})

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
                                         {CauseCode::transport, "transport"},
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

BOOST_DESCRIBE_STRUCT(Cause, (),
                      (text, node, exit_code, signal, knowledge, lost_peer, may_restart, not_restarted, exit_timed_out,
                       gave_up, has_saved, is_urgent, code, error))
BOOST_DESCRIBE_STRUCT(Successor, (), (node_rank, address, port))
BOOST_DESCRIBE_STRUCT(Electorate, (), (attempt, nodes, leader, gone))
BOOST_DESCRIBE_STRUCT(Membership, (), (attempt, node_rank))
BOOST_DESCRIBE_STRUCT(RestartHistory, (),
                      (job_began, counted, in_vain, last_counts, last_is_seen, is_repeated, last_error, last_step))
BOOST_DESCRIBE_STRUCT(Standing, (), (job_key, electorate, successors, history))
BOOST_DESCRIBE_STRUCT(Vote, (), (job_key, attempt, electorate, history, memberships, has_ended))
BOOST_DESCRIBE_STRUCT(NodeHello, (),
                      (version, job, host, node_rank, workers, nodes, same, alike, monotonic, time_of_day, port, vote))
BOOST_DESCRIBE_STRUCT(NodeFailed, (), (attempt, cause))
BOOST_DESCRIBE_STRUCT(NodeLeft, (), (attempt, rank))
BOOST_DESCRIBE_STRUCT(KeptState, (), (step, bytes, key, kind, attempt, rank, world, area, place))
BOOST_DESCRIBE_STRUCT(StatePlace, (), (area, place))
BOOST_DESCRIBE_STRUCT(RankRestore, (), (own, shared, whole))
BOOST_DESCRIBE_STRUCT(StateTransfer, (), (from, to, from_place, to_place, bytes))
BOOST_DESCRIBE_STRUCT(RestorePlan, (), (attempt, step, lost_steps, image, ranks, transfers))
BOOST_DESCRIBE_STRUCT(NodeEnded, (), (attempt, progress, was_asked_to_save, kept))
BOOST_DESCRIBE_STRUCT(NodeShows, (), (attempt, what))  // the text follows the JSON
BOOST_DESCRIBE_STRUCT(NodeHeartbeat, (), (attempt, electorate, sent_at))
BOOST_DESCRIBE_STRUCT(CoordinatorRefuses, (), (why, job_key))
BOOST_DESCRIBE_STRUCT(CoordinatorWaits, (), (text, is_spare, standing))
BOOST_DESCRIBE_STRUCT(CoordinatorBegins, (),
                      (attempt, node_rank, node_count, first_rank, world_size, nodes, name, may_restart, image_cost,
                       restore, standing))
BOOST_DESCRIBE_STRUCT(CoordinatorAsks, (), (attempt, what, sent_at))
BOOST_DESCRIBE_STRUCT(CoordinatorEnds, (), (attempt, cause))
BOOST_DESCRIBE_STRUCT(CoordinatorRestarts, (), (text))
BOOST_DESCRIBE_STRUCT(CoordinatorIsElsewhere, (), (job, address, port))
BOOST_DESCRIBE_STRUCT(CoordinatorIsDone, (), (cause))

namespace {

// The names are in the order of the variant.
constexpr std::array kNames = {"hello", "failed", "left", "ended", "shows",    "heartbeat", "refuses",
                               "waits", "begins", "asks", "ends",  "restarts", "elsewhere", "done"};
static_assert(kNames.size() == std::variant_size_v<ControlMessage>);

template <std::size_t I = 0>
std::optional<ControlMessage> decode_as(const std::string& name, const Json& body) {
  if constexpr (I < kNames.size()) {
    if (name != kNames[I]) return decode_as<I + 1>(name, body);
    return read_json<std::variant_alternative_t<I, ControlMessage>>(body);
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
  const Json body = std::visit([](const auto& specific) { return json_of(specific); }, message);
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
  } catch (const std::exception&) {  // of the library, or about a number
    return std::nullopt;
  }
}

}  // namespace ddp::wire

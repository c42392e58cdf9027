#include "launcher/view/snapshot_json.h"

#include <nlohmann/json.hpp>

#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "launcher/limits.h"

namespace ddp::launcher {
namespace {

using Json = nlohmann::json;

// Writes an object member by member. A tree of nlohmann's values would cost several times as much for a thousand ranks.
class ObjectText {
 public:
  explicit ObjectText(std::string& text) : text_(text) { text_ += '{'; }
  void end() { text_ += '}'; }

  std::string& key(std::string_view name) {
    if (text_.back() != '{') text_ += ',';
    text_.append("\"").append(name).append("\":");
    return text_;
  }
  void add(std::string_view name, std::string_view value) { quote(value, key(name)); }
  void add(std::string_view name, bool value) { key(name) += value ? "true" : "false"; }
  void add(std::string_view name, int value) { number(value, key(name)); }
  void add(std::string_view name, std::uint64_t value) { number(value, key(name)); }
  void add_exactly(std::string_view name, double value) { real(value, key(name)); }
  // Rounds to `digits` decimal digits.
  void add(std::string_view name, double value, int digits) {
    const double scale = std::pow(10.0, digits);
    const double rounded = std::round(value * scale) / scale;
    real(std::isfinite(rounded) ? rounded : value, key(name));
  }
  template <typename Value, typename... Digits>
  void add(std::string_view name, const std::optional<Value>& value, Digits... digits) {
    value ? add(name, *value, digits...) : static_cast<void>(key(name) += "null");
  }

  static void quote(std::string_view value, std::string& text) {
    // Names may be any bytes. Bytes that are not UTF-8 are shown as replacement characters.
    text += Json(value).dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  }

 private:
  template <typename Number>
  static void number(Number value, std::string& text) {
    char digits[32];
    text.append(digits, std::to_chars(digits, digits + sizeof(digits), value).ptr);
  }
  static void real(double value, std::string& text) {
    std::isfinite(value) ? number(value, text) : void(text += "null");
  }

  std::string& text_;
};

constexpr int kShareDigits = 4;
constexpr int kTimeDigits = 3;

void write_rank(const RankRow& rank, std::string& text) {
  ObjectText object(text);
  object.add("rank", rank.rank);
  object.add("node", rank.node);
  object.add("pid", rank.pid);
  object.add("gpu", rank.gpu);
  object.add("state", name_of(rank.state));
  object.add("phase", rank.phase);
  object.add("steps", rank.steps);
  object.add("steps_per_second", rank.steps_per_second, kShareDigits);
  object.add("computing", rank.computing, kShareDigits);
  object.add("collective", rank.collective, kShareDigits);
  object.add("waiting", rank.waiting, kShareDigits);
  object.add("in_phase", rank.in_phase, kShareDigits);
  object.add("waited_for", rank.waited_for, kShareDigits);
  object.add("collective_name", rank.collective_name);
  object.add("collective_number", rank.collective_number);
  object.add("collective_age_seconds", rank.collective_age, kTimeDigits);
  object.add("cpus", rank.cpus, kTimeDigits);
  object.add("rss_bytes", rank.rss_bytes);
  object.add("gpu_use", rank.gpu_use, kShareDigits);
  object.add("gpu_memory_bytes", rank.gpu_memory_bytes);
  object.add("output_age_seconds", rank.output_age, kTimeDigits);
  object.end();
}

void write_node(const NodeRow& node, std::string& text) {
  ObjectText object(text);
  object.add("name", node.name);
  object.add("first_rank", node.first_rank);
  object.add("workers", node.workers);
  object.end();
}

void write_value(const ProgressValue& value, std::string& text) {
  ObjectText object(text);
  object.add("name", value.name);
  object.add_exactly("value", value.value);
  object.end();
}

template <typename Values, typename Write>
void write_list(const Values& values, std::string& text, Write write) {
  text += '[';
  for (const auto& value : values) {
    if (&value != &*values.begin()) text += ',';
    write(value, text);
  }
  text += ']';
}

// Reads members of an object from any program.
class ObjectReader {
 public:
  explicit ObjectReader(const Json& object) : object_(object) {}

  void take(const char* name, std::string& value) const {
    const Json* member = find(name);
    if (member != nullptr && member->is_string()) value = member->get<std::string>();
  }
  void take(const char* name, bool& value) const {
    const Json* member = find(name);
    if (member != nullptr && member->is_boolean()) value = member->get<bool>();
  }
  void take(const char* name, double& value) const {
    const Json* member = find(name);
    if (member != nullptr && member->is_number()) value = member->get<double>();
  }
  void take(const char* name, int& value) const {
    const Json* member = find(name);
    if (member != nullptr && member->is_number_integer() && std::in_range<int>(member->get<std::int64_t>())) {
      value = member->get<int>();
    }
  }
  void take(const char* name, std::uint64_t& value) const {
    const Json* member = find(name);
    if (member != nullptr && member->is_number_unsigned()) value = member->get<std::uint64_t>();
  }
  template <typename Value>
  void take(const char* name, std::optional<Value>& value) const {
    const Json* member = find(name);
    if (member == nullptr || !member->is_number()) return;
    Value number = 0;
    take(name, number);
    value = number;
  }

  // Returns an empty list if there is no list of this name.
  const Json& list(const char* name) const {
    static const Json kNone = Json::array();
    const Json* member = find(name);
    return member != nullptr && member->is_array() ? *member : kNone;
  }
  const Json* find(const char* name) const {
    const auto member = object_.find(name);
    return member == object_.end() ? nullptr : &*member;
  }

 private:
  const Json& object_;
};

RankState state_named(const std::string& name) {
  for (int state = 0; state < kRankStates; ++state) {
    if (name_of(static_cast<RankState>(state)) == name) return static_cast<RankState>(state);
  }
  return RankState::unknown;
}

RankRow read_rank(const Json& json) {
  const ObjectReader object(json);
  RankRow rank;
  std::string state;
  object.take("rank", rank.rank);
  object.take("node", rank.node);
  object.take("pid", rank.pid);
  object.take("gpu", rank.gpu);
  object.take("state", state);
  rank.state = state_named(state);
  object.take("phase", rank.phase);
  object.take("steps", rank.steps);
  object.take("steps_per_second", rank.steps_per_second);
  object.take("computing", rank.computing);
  object.take("collective", rank.collective);
  object.take("waiting", rank.waiting);
  object.take("in_phase", rank.in_phase);
  object.take("waited_for", rank.waited_for);
  object.take("collective_name", rank.collective_name);
  object.take("collective_number", rank.collective_number);
  object.take("collective_age_seconds", rank.collective_age);
  object.take("cpus", rank.cpus);
  object.take("rss_bytes", rank.rss_bytes);
  object.take("gpu_use", rank.gpu_use);
  object.take("gpu_memory_bytes", rank.gpu_memory_bytes);
  object.take("output_age_seconds", rank.output_age);
  return rank;
}

}  // namespace

std::string json_of(const JobSnapshot& snapshot) {
  std::string text;
  text.reserve(1024 + 640 * snapshot.ranks.size());
  ObjectText object(text);
  object.add("schema", kSnapshotSchema);
  object.add("version", snapshot.version);
  object.add("run_id", snapshot.run_id);
  object.add("program", snapshot.program);
  object.add("node", snapshot.node);
  object.add("launcher_pid", snapshot.launcher_pid);
  object.add("attempt", snapshot.attempt);
  object.add("max_restarts", snapshot.max_restarts);
  object.add("uptime_seconds", snapshot.uptime, kTimeDigits);
  object.add("attempt_uptime_seconds", snapshot.attempt_uptime, kTimeDigits);
  object.add("world_size", snapshot.world_size);
  object.add("has_all_ranks", snapshot.has_all_ranks);
  object.add("step", snapshot.step);
  object.add("total_steps", snapshot.total_steps);
  object.add("steps_per_second", snapshot.steps_per_second, kShareDigits);
  object.add("eta_seconds", snapshot.eta, kTimeDigits);
  write_list(snapshot.values, object.key("values"), write_value);
  object.add("bytes_per_second", snapshot.bytes_per_second, 0);
  object.add("stalls", snapshot.stalls);
  object.add("stall", snapshot.stall);
  write_list(snapshot.culprits, object.key("culprits"), [](int rank, std::string& to) { to += std::to_string(rank); });
  write_list(snapshot.nodes, object.key("nodes"), write_node);
  write_list(snapshot.ranks, object.key("ranks"), write_rank);
  object.end();
  return text;
}

base::Result<JobSnapshot> read_snapshot(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return base::Failure{"the snapshot is no JSON object"};
  const ObjectReader object(json);
  int schema = 0;
  object.take("schema", schema);
  if (schema != kSnapshotSchema) {
    return base::Failure{"the snapshot has schema " + std::to_string(schema) + ", and this program reads schema " +
                         std::to_string(kSnapshotSchema) + ". Use the ddplaunch that started the job."};
  }
  JobSnapshot snapshot;
  object.take("version", snapshot.version);
  object.take("run_id", snapshot.run_id);
  object.take("program", snapshot.program);
  object.take("node", snapshot.node);
  object.take("launcher_pid", snapshot.launcher_pid);
  object.take("attempt", snapshot.attempt);
  object.take("max_restarts", snapshot.max_restarts);
  object.take("uptime_seconds", snapshot.uptime);
  object.take("attempt_uptime_seconds", snapshot.attempt_uptime);
  object.take("world_size", snapshot.world_size);
  object.take("has_all_ranks", snapshot.has_all_ranks);
  object.take("step", snapshot.step);
  object.take("total_steps", snapshot.total_steps);
  object.take("steps_per_second", snapshot.steps_per_second);
  object.take("eta_seconds", snapshot.eta);
  object.take("bytes_per_second", snapshot.bytes_per_second);
  object.take("stalls", snapshot.stalls);
  object.take("stall", snapshot.stall);
  for (const Json& value : object.list("values")) {
    if (!value.is_object()) continue;
    const ObjectReader members(value);
    ProgressValue& row = snapshot.values.emplace_back();
    row.value = std::numeric_limits<double>::quiet_NaN();  // JSON has no such number, but null
    members.take("name", row.name);
    members.take("value", row.value);
  }
  for (const Json& rank : object.list("culprits")) {
    if (rank.is_number_integer()) snapshot.culprits.push_back(static_cast<int>(rank.get<std::int64_t>()));
  }
  for (const Json& node : object.list("nodes")) {
    if (!node.is_object()) continue;
    const ObjectReader members(node);
    NodeRow& row = snapshot.nodes.emplace_back();
    members.take("name", row.name);
    members.take("first_rank", row.first_rank);
    members.take("workers", row.workers);
  }
  const Json& ranks = object.list("ranks");
  if (ranks.size() > limits::kViewRanks) return base::Failure{"the snapshot has too many ranks"};
  for (const Json& rank : ranks) {
    if (rank.is_object()) snapshot.ranks.push_back(read_rank(rank));
  }
  return snapshot;
}

}  // namespace ddp::launcher

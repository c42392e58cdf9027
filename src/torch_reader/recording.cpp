#include "torch_reader/recording.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "base/hash.h"

namespace ddp::torch_reader {
namespace {

using Json = nlohmann::json;
using Names = std::pair<std::string_view, std::string_view>;

// This table maps PyTorch's names of operations, without a suffix such as _base, to those of the status page.
constexpr std::array<Names, 13> kOperations = {{
    {"all_reduce_barrier", "barrier"},  // NCCL has no barrier, so PyTorch reduces one element
    {"all_reduce", "all_reduce"},
    {"allreduce", "all_reduce"},
    {"reduce_scatter", "reduce_scatter"},
    {"reduce", "reduce"},
    {"broadcast", "broadcast"},
    {"all_gather", "all_gather"},
    {"allgather", "all_gather"},
    {"gather", "gather"},
    {"scatter", "scatter"},
    {"all_to_all", "all_to_all"},
    {"alltoall", "all_to_all"},
    {"barrier", "barrier"},
}};

struct Type {
  std::string_view theirs;
  std::string_view ours;
  std::uint64_t bytes;
};
constexpr std::array<Type, 10> kTypes = {{
    {"Half", "f16", 2},
    {"BFloat16", "bf16", 2},
    {"Float", "f32", 4},
    {"Double", "f64", 8},
    {"Char", "i8", 1},
    {"Short", "i16", 2},
    {"Int", "i32", 4},
    {"Long", "i64", 8},
    {"Byte", "u8", 1},
    {"Bool", "bool", 1},
}};

std::string operation_of(std::string_view name) {
  for (const auto& [theirs, ours] : kOperations) {
    if (name.starts_with(theirs)) return std::string(ours);
  }
  return std::string(name);
}

std::string type_of(const Json& types) {
  if (types.empty()) return "";
  const auto name = types.front().get<std::string>();
  const auto* const found = std::ranges::find(kTypes, name, &Type::theirs);
  return found == kTypes.end() ? name : std::string(found->ours);
}

std::uint64_t bytes_of_type(std::string_view type) {
  const auto* const found = std::ranges::find(kTypes, type, &Type::ours);
  return found == kTypes.end() ? 0 : found->bytes;
}

std::uint64_t elements_of(const Json& sizes) {
  std::uint64_t elements = 0;
  for (const Json& tensor : sizes) {
    std::uint64_t product = 1;
    for (const Json& size : tensor) product *= size.get<std::uint64_t>();
    elements += product;
  }
  return elements;
}

// Gloo's collectives are carried out by name. In gather and scatter, for example, some ranks pass no tensors.
std::uint64_t fingerprint_for_gloo(const RecordedCall& call) {
  base::Fnv1a64 hash;
  hash.update(call.operation);
  const bool is_alike = call.operation == "all_reduce" || call.operation == "broadcast" || call.operation == "reduce";
  if (is_alike) hash.update(" " + call.type + "[" + std::to_string(call.count) + "]");
  return hash.value();
}

// NCCL knows no names of PyTorch: its barrier is an all_reduce, and its all_gather of one tensor is that of a list.
// Calls that PyTorch makes out of others ("_oop", "coalesced") are not compared, nor is a size that NCCL does not
// compare.
std::uint64_t fingerprint_for_nccl(std::string_view name, const RecordedCall& call) {
  if (name.find("_oop") != std::string_view::npos || name.find("coalesced") != std::string_view::npos) return 0;
  if (name.starts_with('_')) name.remove_prefix(1);
  const std::string operation = name == "all_reduce_barrier" ? "all_reduce" : operation_of(name);
  const bool is_known = std::ranges::find(kOperations, operation, &Names::second) != kOperations.end();
  if (!is_known) return 0;
  base::Fnv1a64 hash;
  hash.update(operation);
  const bool reduces = operation == "all_reduce" || operation == "reduce";
  if (reduces) hash.update(" " + call.type + "[" + std::to_string(call.count) + "]");
  if (operation == "broadcast" && call.bytes > 0) hash.update(" " + std::to_string(call.bytes));
  return hash.value();
}

RecordedCall call_of(const Json& entry) {
  RecordedCall call;
  call.sequence = entry.at("collective_seq_id").get<std::uint64_t>();
  const auto full_name = entry.at("profiling_name").get<std::string>();
  const std::size_t colon = full_name.find(':');
  const std::string_view backend = std::string_view(full_name).substr(0, colon);
  const std::string_view name = std::string_view(full_name).substr(colon == std::string::npos ? 0 : colon + 1);
  call.operation = operation_of(name);
  call.type = type_of(entry.at("input_dtypes"));
  call.count = elements_of(entry.at("input_sizes"));
  call.bytes = call.count * bytes_of_type(call.type);
  const char* const parts = call.operation == "scatter" ? "input_sizes" : "output_sizes";
  const bool has_root = call.operation == "gather" || call.operation == "scatter";
  call.is_root = has_root && entry.contains(parts) && !entry.at(parts).empty();
  call.made_at = entry.at("time_created_ns").get<std::uint64_t>();
  call.finished_at = entry.value("time_discovered_completed_ns", std::uint64_t{0});
  if (backend == "gloo") call.fingerprint = fingerprint_for_gloo(call);
  if (backend == "nccl") call.fingerprint = fingerprint_for_nccl(name, call);
  return call;
}

// A group that is created again with the same name has another identity, because its calls are counted from 1 again. If
// a group uses both backends, each of them counts its own calls. Groups of the same name and size are different ones if
// their ranks met in different stores, such as those of the children of two ranks.
std::uint64_t identity_of(const GroupLine& line, int times_made, Recorder recorder) {
  base::Fnv1a64 hash;
  hash.update(line.name + " " + std::to_string(times_made) + " " + std::to_string(line.size));
  for (const int rank : line.ranks) hash.update(" " + std::to_string(rank));
  hash.update(" " + line.store);
  if (recorder == Recorder::nccl) hash.update(" nccl");
  return hash.value() | 1U;  // 0 means an unknown identity
}

using Groups = std::map<std::string, RecordedGroup>;  // by PyTorch's name

RecordedGroup new_group(const GroupLine& line, int times_made, Recorder recorder) {
  RecordedGroup group;
  group.line = line;
  group.recorder = recorder;
  group.identity = identity_of(line, times_made, recorder);
  return group;
}

Groups groups_of(const WorkerLines& lines, Recorder recorder) {
  Groups groups;
  std::map<std::string, int> times_made;
  for (const GroupLine& line : lines.groups) {
    if (may_use(line, recorder)) groups.insert_or_assign(line.name, new_group(line, ++times_made[line.name], recorder));
  }
  return groups;
}

void add(const Json& entry, Groups& groups) {
  const auto found = groups.find(entry.at("process_group").at(0).get<std::string>());
  if (found == groups.end()) return;
  RecordedGroup& group = found->second;
  if (entry.at("time_created_ns").get<std::uint64_t>() < group.line.made_at) return;
  if (entry.contains("pg_id")) group.number = std::to_string(entry.at("pg_id").get<std::int64_t>());
  if (entry.at("is_p2p").get<bool>()) {
    group.has_transfers = true;
    return;
  }
  RecordedCall call = call_of(entry);
  if (call.sequence == 0) return;
  // PyTorch retires a call a moment after it has noticed its end.
  const bool is_finished = entry.at("retired").get<bool>() || call.finished_at > 0;
  if (!is_finished) group.finished = std::min(group.finished, call.sequence - 1);
  group.called = std::max(group.called, call.sequence);
  group.calls.push_back(std::move(call));
}

// Calls that PyTorch enqueues together have one number, and are not compared.
void settle(RecordedGroup& group) {
  group.finished = std::min(group.finished, group.called);
  std::ranges::stable_sort(group.calls, {}, &RecordedCall::sequence);
  for (std::size_t i = 1; i < group.calls.size(); ++i) {
    RecordedCall& before = group.calls[i - 1];
    RecordedCall& call = group.calls[i];
    if (before.sequence == call.sequence) before.fingerprint = call.fingerprint = 0;
  }
}

// Returns the rank of this process in the job, or -1 if no line shows it.
int own_rank(const WorkerLines& lines) {
  for (const GroupLine& line : lines.groups) {
    const auto place = static_cast<std::size_t>(line.rank);
    if (line.ranks.empty()) return line.rank;
    if (place < line.ranks.size()) return line.ranks[place];
  }
  return -1;
}

// Returns a group that the lines do not have, or std::nullopt if this process is not in it.
std::optional<GroupLine> line_of(const Json& config, const WorkerLines& lines) {
  GroupLine line;
  line.name = config.at("name").get<std::string>();
  line.description = config.at("desc").get<std::string>();
  line.ranks = Json::parse(config.at("ranks").get<std::string>()).get<std::vector<int>>();
  const auto own = std::ranges::find(line.ranks, own_rank(lines));
  if (own == line.ranks.end()) return std::nullopt;
  line.rank = static_cast<int>(own - line.ranks.begin());
  line.size = static_cast<int>(line.ranks.size());
  line.store = lines.groups.front().store;  // PyTorch splits such a group from one of these
  if (line.description == "undefined" || line.description == "default_pg") line.description.clear();
  return line;
}

std::int64_t number_in(const Json& status, const char* key) {
  if (!status.contains(key)) return -1;
  const Json& value = status.at(key);
  if (!value.is_string()) return value.get<std::int64_t>();
  const auto text = value.get<std::string>();
  std::int64_t number = -1;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

WorkerLines read_lines(std::string_view text) {
  WorkerLines lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) break;
    const Json json = Json::parse(text.substr(0, end), nullptr, /*allow_exceptions=*/false);
    text.remove_prefix(end + 1);
    try {
      if (json.contains("pid")) {
        const auto recorders = json.value("recorders", std::vector<std::string>{"gloo"});
        lines.has_gloo = std::ranges::find(recorders, "gloo") != recorders.end();
        lines.has_nccl = std::ranges::find(recorders, "nccl") != recorders.end();
        lines.times = json.value("times", -1);
        lines.pid = json.at("pid").get<int>();
        continue;
      }
      if (json.contains("ended")) {
        lines.has_ended = true;
        continue;
      }
      GroupLine line{json.at("name").get<std::string>(),
                     json.at("description").get<std::string>(),
                     json.at("rank").get<int>(),
                     json.at("size").get<int>(),
                     json.at("ranks").get<std::vector<int>>(),
                     json.at("made_at").get<std::uint64_t>(),
                     json.value("backend", ""),
                     json.value("store", "")};
      if (line.rank >= 0 && line.rank < line.size) lines.groups.push_back(std::move(line));
    } catch (const Json::exception&) {  // skips invalid lines
      continue;
    }
  }
  return lines;
}

bool may_use(const GroupLine& line, Recorder recorder) {
  const bool names_gloo = line.backend.find("gloo") != std::string::npos;
  const bool names_nccl = line.backend.find("nccl") != std::string::npos;
  return names_gloo == names_nccl || (recorder == Recorder::gloo ? names_gloo : names_nccl);
}

base::Result<std::vector<RecordedGroup>> read_recording(std::string_view json, const WorkerLines& lines,
                                                        Recorder recorder) try {
  Groups groups = groups_of(lines, recorder);
  const Json recording = Json::parse(json);
  if (recorder == Recorder::nccl && recording.contains("pg_config")) {
    for (const Json& config : recording.at("pg_config")) {
      const auto line = line_of(config, lines);
      if (line) groups.try_emplace(line->name, new_group(*line, 1, recorder));
    }
  }
  for (auto& [name, group] : groups) group.finished = ~std::uint64_t{0};
  if (recording.contains("entries")) {
    for (const Json& entry : recording.at("entries")) add(entry, groups);
  }
  std::vector<RecordedGroup> result;
  for (auto& [name, group] : groups) {
    settle(group);
    result.push_back(std::move(group));
  }
  return result;
} catch (const Json::exception& error) {
  return base::Failure{error.what()};
}

std::vector<RecordedGroup> groups_without_calls(const WorkerLines& lines, Recorder recorder) {
  std::vector<RecordedGroup> result;
  for (auto& [name, group] : groups_of(lines, recorder)) result.push_back(std::move(group));
  return result;
}

std::vector<RecordedGroup> merge(std::vector<RecordedGroup> gloo, std::vector<RecordedGroup> nccl) {
  const auto has_called = [](const RecordedGroup& group) { return group.called > 0; };
  const bool uses_nccl = std::ranges::any_of(nccl, has_called);
  const bool uses_gloo = !uses_nccl || std::ranges::any_of(gloo, has_called);
  const auto is_hidden = [&](const RecordedGroup& group) {
    const bool may_use_both = may_use(group.line, Recorder::gloo) && may_use(group.line, Recorder::nccl);
    return may_use_both && !(group.recorder == Recorder::gloo ? uses_gloo : uses_nccl);
  };
  std::vector<RecordedGroup> result = std::move(gloo);
  result.insert(result.end(), std::make_move_iterator(nccl.begin()), std::make_move_iterator(nccl.end()));
  std::erase_if(result, is_hidden);
  return result;
}

base::Result<Statuses> read_statuses(std::string_view json) try {
  Statuses statuses;
  const Json recording = Json::parse(json);
  for (const auto& [number, status] : recording.at("pg_status").get_ref<const Json::object_t&>()) {
    statuses[number] = {number_in(status, "last_enqueued_collective"), number_in(status, "last_completed_collective")};
  }
  return statuses;
} catch (const Json::exception& error) {
  return base::Failure{error.what()};
}

}  // namespace ddp::torch_reader

#include "torch_reader/recording.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/hash.h"

namespace ddp::torch_reader {
namespace {

using Json = nlohmann::json;
using Names = std::pair<std::string_view, std::string_view>;

// This table maps PyTorch's names of operations, without a suffix such as _base, to those of the status page.
constexpr std::array<Names, 12> kOperations = {{
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

std::uint64_t fingerprint_of(std::string_view backend, const RecordedCall& call) {
  base::Fnv1a64 hash;
  if (backend != "gloo") return hash.value();
  hash.update(call.operation);
  const bool is_alike = call.operation == "all_reduce" || call.operation == "broadcast" || call.operation == "reduce";
  if (is_alike) hash.update(" " + call.type + "[" + std::to_string(call.count) + "]");
  return hash.value();
}

RecordedCall call_of(const Json& entry) {
  RecordedCall call;
  call.sequence = entry.at("collective_seq_id").get<std::uint64_t>();
  const auto name = entry.at("profiling_name").get<std::string>();
  const std::size_t colon = name.find(':');
  call.operation = operation_of(std::string_view(name).substr(colon == std::string::npos ? 0 : colon + 1));
  call.type = type_of(entry.at("input_dtypes"));
  call.count = elements_of(entry.at("input_sizes"));
  call.bytes = call.count * bytes_of_type(call.type);
  call.made_at = entry.at("time_created_ns").get<std::uint64_t>();
  call.finished_at = entry.value("time_discovered_completed_ns", std::uint64_t{0});
  call.fingerprint = fingerprint_of(std::string_view(name).substr(0, colon), call);
  return call;
}

// A group that is created again with the same name has another identity, because its calls are counted from 1 again.
std::uint64_t identity_of(const GroupLine& line, int times_made) {
  base::Fnv1a64 hash;
  hash.update(line.name + " " + std::to_string(times_made) + " " + std::to_string(line.size));
  for (const int rank : line.ranks) hash.update(" " + std::to_string(rank));
  return hash.value() | 1U;  // 0 means an unknown identity
}

void add(const Json& entry, RecordedGroup& group) {
  RecordedCall call = call_of(entry);
  if (call.made_at < group.line.made_at || call.sequence == 0) return;
  if (!entry.at("retired").get<bool>()) group.finished = std::min(group.finished, call.sequence - 1);
  group.called = std::max(group.called, call.sequence);
  group.calls.push_back(std::move(call));
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
        lines.pid = json.at("pid").get<int>();
        continue;
      }
      GroupLine line{json.at("name").get<std::string>(),
                     json.at("description").get<std::string>(),
                     json.at("rank").get<int>(),
                     json.at("size").get<int>(),
                     json.at("ranks").get<std::vector<int>>(),
                     json.at("made_at").get<std::uint64_t>()};
      if (line.rank >= 0 && line.rank < line.size) lines.groups.push_back(std::move(line));
    } catch (const Json::exception&) {  // skips invalid lines
      continue;
    }
  }
  return lines;
}

base::Result<std::vector<RecordedGroup>> read_recording(std::string_view json, const WorkerLines& lines) try {
  std::map<std::string, RecordedGroup> groups;
  std::map<std::string, int> times_made;
  for (const GroupLine& line : lines.groups) {
    RecordedGroup group;
    group.line = line;
    group.identity = identity_of(line, ++times_made[line.name]);
    group.finished = ~std::uint64_t{0};
    groups.insert_or_assign(line.name, std::move(group));
  }
  const Json recording = Json::parse(json);
  if (recording.contains("entries")) {
    for (const Json& entry : recording.at("entries")) {
      const auto group = groups.find(entry.at("process_group").at(0).get<std::string>());
      if (group != groups.end() && !entry.at("is_p2p").get<bool>()) add(entry, group->second);
    }
  }
  std::vector<RecordedGroup> result;
  for (auto& [name, group] : groups) {
    group.finished = std::min(group.finished, group.called);
    std::ranges::stable_sort(group.calls, {}, &RecordedCall::sequence);
    result.push_back(std::move(group));
  }
  return result;
} catch (const Json::exception& error) {
  return base::Failure{error.what()};
}

}  // namespace ddp::torch_reader

#include "runtime/checkpoint/shard_exchange.h"

#include <ddp/error.h>

#include <nlohmann/json.hpp>

#include <algorithm>

#include "runtime/checkpoint/tensor_copier.h"
#include "runtime/group/agreement.h"

namespace ddp::internal {
namespace {

using Json = nlohmann::json;

// Values must be text, because the manifest is JSON.
bool is_text(const std::string& value) {
  try {
    static_cast<void>(Json(value).dump());
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

std::string find_value_fault(const std::map<std::string, std::string>& values) {
  for (const auto& [name, value] : values) {
    if (!is_text(name)) return "the name of a value is not text in UTF-8";
    if (!is_text(value)) return "value '" + name + "' is not text in UTF-8; save other bytes as a tensor of u8";
  }
  return "";
}

// Returns the fault of a rank's shards as text, or an empty string if there is none.
std::string find_shard_fault(const ProcessGroup& group, std::span<const TensorShard> shards) {
  for (const TensorShard& shard : shards) {
    // As a whole tensor the shard must be valid, except for its number of elements.
    Tensor whole{shard.name, shard.data, shard.shape};
    whole.data.count = elements_of(shard.shape).value_or(whole.data.count);
    const std::string fault = find_fault(group, {&whole, 1});
    if (!fault.empty()) return fault;
    if (shard.first + shard.data.count > whole.data.count) {
      return "elements " + std::to_string(shard.first) + " to " + std::to_string(shard.first + shard.data.count) +
             " of tensor " + describe(whole) + " are given, but it has only " + std::to_string(whole.data.count);
    }
  }
  return "";
}

const TensorShard& shard_named(std::span<const TensorShard> shards, const std::string& name) {
  return *std::find_if(shards.begin(), shards.end(), [&](const TensorShard& shard) { return shard.name == name; });
}

Buffer part_of(const TensorShard& shard, const ManifestPiece& piece) {
  return shard.data.slice(piece.first - shard.first, piece.count);
}

}  // namespace

ExchangedShards exchange_shards(const ProcessGroup& group, const CheckpointState& state) {
  std::string own_fault = find_shard_fault(group, state.tensors);
  for (const auto* values : {&state.values, &state.rank_values}) {
    if (own_fault.empty()) own_fault = find_value_fault(*values);
  }
  Json own = {{"fault", own_fault}, {"rank_values", state.rank_values}, {"values", state.values}};
  own["shards"] = Json::array();
  for (const TensorShard& shard : state.tensors) {
    own["shards"].push_back(
        {shard.name, static_cast<int>(shard.data.type), shard.shape, shard.first, shard.data.count});
  }
  const std::vector<std::uint8_t> bytes = Json::to_cbor(own);
  ExchangedShards result;
  std::string fault;
  for (const std::string& text : group.all_gather_bytes({reinterpret_cast<const char*>(bytes.data()), bytes.size()})) {
    const Json theirs = Json::from_cbor(text);
    if (fault.empty() && !theirs["fault"].get<std::string>().empty()) {
      fault = "rank " + std::to_string(result.shards.size()) + ": " + theirs["fault"].get<std::string>();
    }
    if (result.shards.empty()) theirs["values"].get_to(result.values);
    result.rank_values.push_back(theirs["rank_values"].get<std::map<std::string, std::string>>());
    std::vector<ShardDescription>& shards = result.shards.emplace_back();
    for (const Json& shard : theirs["shards"]) {
      shards.push_back({shard[0].get<std::string>(), static_cast<DataType>(shard[1].get<int>()),
                        shard[2].get<std::vector<std::int64_t>>(), shard[3].get<std::size_t>(),
                        shard[4].get<std::size_t>()});
    }
  }
  if (!fault.empty()) throw Error(ErrorKind::invalid_argument, "checkpoint: " + fault);
  return result;
}

WrittenTensors own_parts(const ProcessGroup& group, const CheckpointState& state,
                         const std::map<std::string, ManifestTensor>& plan, bool copies) {
  const TensorCopier copier(group, state.stream);
  WrittenTensors written;
  for (const auto& [name, tensor] : plan) {
    for (const ManifestPiece& piece : tensor.pieces) {
      if (piece.file != static_cast<std::size_t>(group.rank())) continue;
      const Buffer part = part_of(shard_named(state.tensors, name), piece);
      const bool is_whole = piece.count == elements_of(tensor.shape);
      written.tensors.push_back({name, copier.on_host(part, copies, written.memory),
                                 is_whole ? tensor.shape : std::vector{static_cast<std::int64_t>(piece.count)}});
    }
  }
  return written;
}

WrittenTensors gather_whole(const ProcessGroup& group, const CheckpointState& state,
                            std::map<std::string, ManifestTensor>& plan, bool copies) {
  const TensorCopier copier(group, state.stream);
  const std::span<const TensorShard> shards = state.tensors;
  WrittenTensors written;
  const auto own_rank = static_cast<std::size_t>(group.rank());
  for (auto& [name, tensor] : plan) {
    const bool is_here = std::all_of(tensor.pieces.begin(), tensor.pieces.end(),
                                     [](const ManifestPiece& piece) { return piece.file == 0; });
    const std::size_t elements = elements_of(tensor.shape).value();
    Buffer whole(nullptr, elements, tensor.type);
    if (own_rank == 0 && is_here && tensor.pieces.size() <= 1) {
      if (elements > 0) whole = part_of(shard_named(shards, name), tensor.pieces[0]);
      whole = copier.on_host(whole, copies, written.memory);
    } else if (own_rank == 0) {
      written.memory.push_back(std::make_unique<std::byte[]>(whole.bytes()));
      whole.data = written.memory.back().get();
    }
    for (const ManifestPiece& piece : tensor.pieces) {
      if (piece.file == own_rank && own_rank != 0) {
        const Buffer part = part_of(shard_named(shards, name), piece);
        group.send(part, 0, {.stream = copier.stream_of(part)}).wait();
      }
      if (own_rank != 0 || (is_here && tensor.pieces.size() <= 1)) continue;
      const Buffer place = whole.slice(piece.first, piece.count);
      if (piece.file == 0) {
        copier.copy(place, part_of(shard_named(shards, name), piece));
      } else {
        group.recv(place, static_cast<int>(piece.file)).wait();
      }
    }
    tensor.pieces = {{0, 0, elements}};
    if (own_rank == 0) written.tensors.push_back({name, whole, tensor.shape});
  }
  return written;
}

std::map<std::string, std::string> part_metadata(const Manifest& manifest, const std::string& file) {
  return {{"format", "pt"}, {"ddp.save", manifest.save}, {"ddp.file", file}};
}

ReadCheckpoint open_part(const std::string& directory, const Manifest& manifest, std::size_t file) {
  const std::string& name = manifest.files[file].name;
  const std::string path = directory + "/" + name;
  ReadCheckpoint read = open_checkpoint_file(path);
  for (const auto& [key, text] : part_metadata(manifest, name)) {
    const auto stored = read.header.metadata.find(key);
    if (stored != read.header.metadata.end() && stored->second == text) continue;
    throw Error(ErrorKind::corrupt,
                "checkpoint " + path + " is damaged: it belongs to another save or is another part");
  }
  return read;
}

const char* stored_piece(const ReadCheckpoint& file, const std::string& path, const std::string& name, DataType type,
                         const ManifestPiece& piece) {
  const auto& tensors = file.header.tensors;
  const auto stored =
      std::find_if(tensors.begin(), tensors.end(), [&](const StoredTensor& tensor) { return tensor.name == name; });
  if (stored == tensors.end() || stored->type != type || stored->bytes != piece.count * size_of(type)) {
    throw Error(ErrorKind::corrupt,
                "checkpoint " + path + " is damaged: it does not contain its part of '" + name + "'");
  }
  return file.data.data() + stored->first;
}

void read_shards(const ProcessGroup& group, const std::string& directory, const Manifest& manifest,
                 const CheckpointState& state) {
  const TensorCopier copier(group, state.stream);
  const std::span<const TensorShard> shards = state.tensors;
  const std::string fault = find_shard_fault(group, shards);
  if (!fault.empty()) throw Error(ErrorKind::invalid_argument, "checkpoint " + directory + ": " + fault);
  for (const TensorShard& shard : shards) {
    const auto stored = manifest.tensors.find(shard.name);
    if (stored == manifest.tensors.end()) {
      throw Error(ErrorKind::mismatch, "checkpoint " + directory + " has no tensor '" + shard.name + "'");
    }
    require_stored_as(describe(shard.data.type, shard.shape), describe(stored->second.type, stored->second.shape),
                      shard.name, directory);
  }
  // The files are read one by one, so that only one is in memory at a time.
  for (std::size_t i = 0; i < manifest.files.size(); ++i) {
    const std::string path = directory + "/" + manifest.files[i].name;
    std::optional<ReadCheckpoint> file;
    for (const TensorShard& shard : shards) {
      const ManifestTensor& tensor = manifest.tensors.at(shard.name);
      for (const ManifestPiece& piece : tensor.pieces) {
        const Overlap overlap = overlap_of(shard.first, shard.data.count, piece);
        if (piece.file != i || overlap.count == 0) continue;
        if (!file) file = open_part(directory, manifest, i);
        const char* stored = stored_piece(*file, path, shard.name, tensor.type, piece);
        const ConstBuffer from(stored + overlap.first_in_piece * size_of(tensor.type), overlap.count, tensor.type);
        copier.copy(shard.data.slice(overlap.first_in_shard, overlap.count), from);
      }
    }
  }
}

}  // namespace ddp::internal

#include "runtime/checkpoint/manifest.h"

#include <ddp/error.h>

#include <nlohmann/json.hpp>

#include <algorithm>

#include "base/hash.h"

namespace ddp::internal {
namespace {

using Json = nlohmann::json;

constexpr int kVersion = 1;

std::string checksum_of(const Json& body) {
  base::Fnv1a64 hash;
  hash.update(body.dump());
  return base::hex64(hash.value());
}

DataType type_of(const std::string& name) {
  const auto type =
      std::find_if(kDataTypes.begin(), kDataTypes.end(), [&](DataType t) { return to_string(t) == name; });
  if (type == kDataTypes.end()) throw Error(ErrorKind::corrupt, "it has a tensor of type '" + name + "'");
  return *type;
}

std::size_t checked_elements_of(const ManifestTensor& tensor) {
  std::size_t product = 1;
  for (const std::int64_t size : tensor.shape) {
    if (size < 0 || __builtin_mul_overflow(product, static_cast<std::size_t>(size), &product)) {
      throw Error(ErrorKind::corrupt, "it has a tensor of an impossible shape");
    }
  }
  return product;
}

void check_pieces(const std::string& name, const ManifestTensor& tensor, std::size_t files) {
  std::size_t end = 0;
  for (const ManifestPiece& piece : tensor.pieces) {
    if (piece.first != end || piece.file >= files || __builtin_add_overflow(end, piece.count, &end)) {
      throw Error(ErrorKind::corrupt, "the pieces of its tensor '" + name + "' do not fit");
    }
  }
  if (end != checked_elements_of(tensor)) {
    throw Error(ErrorKind::corrupt, "the pieces of its tensor '" + name + "' are not all there");
  }
}

}  // namespace

std::string encode_manifest(const Manifest& manifest) {
  Json body = {{"step", manifest.step}, {"values", manifest.values}, {"rank_values", manifest.rank_values}};
  body["files"] = Json::array();
  for (const ManifestFile& file : manifest.files) body["files"].push_back({{"name", file.name}, {"bytes", file.bytes}});
  body["tensors"] = Json::object();
  for (const auto& [name, tensor] : manifest.tensors) {
    Json& entry = body["tensors"][name];
    entry = {{"type", to_string(tensor.type)}, {"shape", tensor.shape}, {"pieces", Json::array()}};
    for (const ManifestPiece& piece : tensor.pieces) {
      entry["pieces"].push_back({{"file", piece.file}, {"first", piece.first}, {"count", piece.count}});
    }
  }
  const Json whole = {
      {"format", "ddp checkpoint"}, {"version", kVersion}, {"checksum", checksum_of(body)}, {"body", body}};
  return whole.dump(1) + "\n";
}

Manifest parse_manifest(std::string_view text) {
  try {
    const Json whole = Json::parse(text);
    if (whole.at("format") != "ddp checkpoint") throw Error(ErrorKind::corrupt, "it is another kind of file");
    if (whole.at("version") != kVersion) {
      throw Error(ErrorKind::corrupt, "it has version " + whole.at("version").dump() + "; this program reads version " +
                                          std::to_string(kVersion));
    }
    const Json& body = whole.at("body");
    if (whole.at("checksum") != checksum_of(body)) {
      throw Error(ErrorKind::corrupt, "its checksum is not that of its contents");
    }
    Manifest manifest;
    body.at("step").get_to(manifest.step);
    body.at("values").get_to(manifest.values);
    body.at("rank_values").get_to(manifest.rank_values);
    for (const Json& file : body.at("files")) {
      const std::string name = file.at("name").get<std::string>();
      if (name.empty() || name.find('/') != std::string::npos) {
        throw Error(ErrorKind::corrupt, "it names the file '" + name + "', which is not in its directory");
      }
      manifest.files.push_back({name, file.at("bytes").get<std::uint64_t>()});
    }
    for (const auto& [name, entry] : body.at("tensors").items()) {
      ManifestTensor tensor{
          type_of(entry.at("type").get<std::string>()), entry.at("shape").get<std::vector<std::int64_t>>(), {}};
      for (const Json& piece : entry.at("pieces")) {
        tensor.pieces.push_back({piece.at("file").get<std::size_t>(), piece.at("first").get<std::size_t>(),
                                 piece.at("count").get<std::size_t>()});
      }
      check_pieces(name, tensor, manifest.files.size());
      manifest.tensors.emplace(name, std::move(tensor));
    }
    return manifest;
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::corrupt, std::string("it is not what it should be: ") + error.what());
  }
}

}  // namespace ddp::internal

#include "runtime/checkpoint/manifest.h"

#include <ddp/error.h>

#include <nlohmann/json.hpp>

#include <algorithm>

#include "base/hash.h"
#include "runtime/group/agreement.h"

namespace ddp::internal {
namespace {

using Json = nlohmann::json;

constexpr int kVersion = 2;

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

void check_pieces(const std::string& name, const ManifestTensor& tensor, std::size_t files) {
  std::size_t end = 0;
  for (const ManifestPiece& piece : tensor.pieces) {
    if (piece.first != end || piece.file >= files || __builtin_add_overflow(end, piece.count, &end)) {
      throw Error(ErrorKind::corrupt, "the pieces of its tensor '" + name + "' do not fit together");
    }
  }
  const auto elements = elements_of(tensor.shape);
  if (!elements) throw Error(ErrorKind::corrupt, "it has a tensor of an impossible shape");
  if (end != *elements) {
    throw Error(ErrorKind::corrupt, "the pieces of its tensor '" + name + "' are incomplete");
  }
}

}  // namespace

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ManifestPiece, file, first, count)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ManifestFile, name, bytes)

std::string encode_manifest(const Manifest& manifest) {
  Json body = {{"step", manifest.step},     {"save", manifest.save},
               {"values", manifest.values}, {"rank_values", manifest.rank_values},
               {"files", manifest.files},   {"tensors", Json::object()}};
  for (const auto& [name, tensor] : manifest.tensors) {
    body["tensors"][name] = {{"type", to_string(tensor.type)}, {"shape", tensor.shape}, {"pieces", tensor.pieces}};
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
      throw Error(ErrorKind::corrupt, "its checksum does not match its contents");
    }
    Manifest manifest;
    body.at("step").get_to(manifest.step);
    body.at("save").get_to(manifest.save);
    body.at("values").get_to(manifest.values);
    body.at("rank_values").get_to(manifest.rank_values);
    body.at("files").get_to(manifest.files);
    for (const auto& [name, bytes] : manifest.files) {
      if (!name.empty() && name.find('/') == std::string::npos) continue;
      throw Error(ErrorKind::corrupt, "it names the file '" + name + "', which is not in its directory");
    }
    for (const auto& [name, entry] : body.at("tensors").items()) {
      ManifestTensor tensor{type_of(entry.at("type")), entry.at("shape"), entry.at("pieces")};
      check_pieces(name, tensor, manifest.files.size());
      manifest.tensors.emplace(name, std::move(tensor));
    }
    return manifest;
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::corrupt, std::string("its format is invalid: ") + error.what());
  }
}

}  // namespace ddp::internal

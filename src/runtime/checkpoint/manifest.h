// The manifest of a checkpoint says which part of which tensor is in which file. These functions are pure.
// docs/development/protocol.md describes the format.
#pragma once

#include <ddp/buffer.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::internal {

// Describes elements [first, first + count) of a tensor, in row-major order. File number `file` stores them as a tensor
// of the same name.
struct ManifestPiece {
  std::size_t file = 0;
  std::size_t first = 0;
  std::size_t count = 0;

  friend bool operator==(const ManifestPiece&, const ManifestPiece&) = default;
};

struct ManifestTensor {
  DataType type = DataType::f32;
  std::vector<std::int64_t> shape;
  std::vector<ManifestPiece> pieces;  // ordered by `first`; together they hold each element once

  friend bool operator==(const ManifestTensor&, const ManifestTensor&) = default;
};

struct ManifestFile {
  std::string name;
  std::uint64_t bytes = 0;

  friend bool operator==(const ManifestFile&, const ManifestFile&) = default;
};

struct Manifest {
  std::int64_t step = 0;
  std::string save;  // identifies this save; each of its files has the same text
  std::vector<ManifestFile> files;
  std::map<std::string, ManifestTensor> tensors;
  std::map<std::string, std::string> values;
  std::vector<std::map<std::string, std::string>> rank_values;  // values of each rank, by rank

  friend bool operator==(const Manifest&, const Manifest&) = default;
};

// Returns JSON, with a checksum of its contents.
std::string encode_manifest(const Manifest& manifest);

// Throws corrupt, with the reason, unless the text is a manifest of this version and its checksum is correct. Also
// throws corrupt unless every tensor's pieces hold each of its elements once.
Manifest parse_manifest(std::string_view text);

}  // namespace ddp::internal

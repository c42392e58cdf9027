// The manifest of a checkpoint: which part of which tensor is in which file. Pure; the format is in
// docs/development/protocol.md.
#pragma once

#include <ddp/buffer.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::internal {

// Elements [first, first + count) of a tensor, in row-major order, as a tensor of the same name in file number `file`.
struct ManifestPiece {
  std::size_t file = 0;
  std::size_t first = 0;
  std::size_t count = 0;

  friend bool operator==(const ManifestPiece&, const ManifestPiece&) = default;
};

struct ManifestTensor {
  DataType type = DataType::f32;
  std::vector<std::int64_t> shape;
  std::vector<ManifestPiece> pieces;  // by first; together all elements, each once

  friend bool operator==(const ManifestTensor&, const ManifestTensor&) = default;
};

struct ManifestFile {
  std::string name;
  std::uint64_t bytes = 0;

  friend bool operator==(const ManifestFile&, const ManifestFile&) = default;
};

struct Manifest {
  std::int64_t step = 0;
  std::vector<ManifestFile> files;
  std::map<std::string, ManifestTensor> tensors;
  std::map<std::string, std::string> values;
  std::vector<std::map<std::string, std::string>> rank_values;  // by rank

  friend bool operator==(const Manifest&, const Manifest&) = default;
};

// JSON, with a checksum of itself.
std::string encode_manifest(const Manifest& manifest);

// Throws corrupt, saying what is wrong, unless the text is a manifest of this version whose checksum holds, and every
// tensor's pieces have each of its elements once.
Manifest parse_manifest(std::string_view text);

}  // namespace ddp::internal

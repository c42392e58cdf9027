// This file implements the safetensors format: u64 header length, JSON header, data. The functions are pure and access
// no files.
// Source: https://github.com/huggingface/safetensors#format
#pragma once

#include <ddp/buffer.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddp::internal {

struct StoredTensor {
  std::string name;
  DataType type = DataType::f32;
  std::vector<std::int64_t> shape;
  std::size_t first = 0;  // offset in bytes from the beginning of the data
  std::size_t bytes = 0;
};

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;
  std::map<std::string, std::string> metadata;
};

// Returns the length word and the JSON, padded with spaces so that the data begin at a multiple of 64 bytes. The
// tensors' data follow in the given order without gaps. Throws invalid_argument if a name is reserved or repeated.
std::string encode_safetensors_header(std::span<const Tensor> tensors,
                                      const std::map<std::string, std::string>& metadata);

// Returns where the data begin, given the file's first 8 bytes. Throws corrupt if the length is impossible.
std::size_t safetensors_data_offset(std::string_view length_word, std::size_t file_bytes);

// `json` is the header without the length word; `data_bytes` is the size of the data that follow it in the file. Throws
// corrupt, with the reason, unless every tensor lies inside the data, has a known type and has as many bytes as its
// shape requires.
SafetensorsHeader parse_safetensors_header(std::string_view json, std::size_t data_bytes);

}  // namespace ddp::internal

#include "runtime/checkpoint/safetensors.h"

#include <ddp/error.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/limits.h"

namespace ddp::internal {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr const char* kMetadata = "__metadata__";

// These names are in the order of DataType.
constexpr std::array<std::string_view, kDataTypes.size()> kTypeNames = {"F16", "BF16", "F32", "F64", "I8",
                                                                        "I16", "I32",  "I64", "U8",  "BOOL"};

[[noreturn]] void corrupt(const std::string& what) {
  throw Error(ErrorKind::corrupt, "damaged header: " + what);
}

DataType type_named(const std::string& name) {
  const auto found = std::ranges::find(kTypeNames, name);
  if (found == kTypeNames.end()) corrupt("unknown type " + name);
  return kDataTypes[static_cast<std::size_t>(found - kTypeNames.begin())];
}

// The JSON library would accept 4.5 as 4, and true as 1.
const OrderedJson& whole_numbers(const OrderedJson& list, const std::string& name) {
  for (const OrderedJson& entry : list) {
    if (!entry.is_number_integer()) corrupt("tensor '" + name + "' has a size or offset that is not a whole number");
  }
  return list;
}

StoredTensor parse_tensor(const std::string& name, const OrderedJson& entry, std::size_t data_bytes) {
  StoredTensor tensor;
  tensor.name = name;
  tensor.type = type_named(entry.at("dtype").get<std::string>());
  tensor.shape = whole_numbers(entry.at("shape"), name).get<std::vector<std::int64_t>>();
  const auto offsets = whole_numbers(entry.at("data_offsets"), name).get<std::vector<std::uint64_t>>();
  if (offsets.size() != 2) corrupt("tensor '" + name + "' does not have two offsets");
  if (offsets[0] > offsets[1] || offsets[1] > data_bytes) corrupt("tensor '" + name + "' lies outside the data");
  tensor.first = offsets[0];
  tensor.bytes = offsets[1] - offsets[0];
  std::size_t bytes = size_of(tensor.type);
  for (const std::int64_t size : tensor.shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, static_cast<std::size_t>(size), &bytes)) {
      corrupt("tensor '" + name + "' has an impossible shape");
    }
  }
  if (bytes != tensor.bytes) corrupt("tensor '" + name + "' has a size that does not match its shape");
  return tensor;
}

}  // namespace

std::string encode_safetensors_header(std::span<const Tensor> tensors,
                                      const std::map<std::string, std::string>& metadata) {
  OrderedJson header = OrderedJson::object();
  header[kMetadata] = metadata;
  std::size_t first = 0;
  for (const Tensor& tensor : tensors) {
    if (header.contains(tensor.name)) {
      throw Error(ErrorKind::invalid_argument,
                  "checkpoint: the tensor name '" + tensor.name + "' is reserved or used twice");
    }
    header[tensor.name] = {{"dtype", kTypeNames[static_cast<std::size_t>(tensor.data.type)]},
                           {"shape", tensor.shape},
                           {"data_offsets", {first, first + tensor.data.bytes()}}};
    first += tensor.data.bytes();
  }
  std::string json;
  try {
    json = header.dump();
  } catch (const OrderedJson::exception&) {
    throw Error(ErrorKind::invalid_argument, "checkpoint: a tensor's name or a word of the metadata is not UTF-8");
  }
  json.resize((json.size() + 8 + 63) / 64 * 64 - 8, ' ');
  const std::uint64_t length = json.size();
  std::string result(sizeof length, '\0');
  std::memcpy(result.data(), &length, sizeof length);
  return result + json;
}

std::size_t safetensors_data_offset(std::string_view length_word, std::size_t file_bytes) {
  std::uint64_t length = 0;
  if (length_word.size() != sizeof length) corrupt("the file is too short");
  std::memcpy(&length, length_word.data(), sizeof length);
  if (length > limits::kCheckpointHeaderBytes || length + sizeof length > file_bytes) {
    corrupt("its length is " + std::to_string(length) + " in a file of " + std::to_string(file_bytes) + " bytes");
  }
  return sizeof length + length;
}

SafetensorsHeader parse_safetensors_header(std::string_view json, std::size_t data_bytes) {
  SafetensorsHeader header;
  try {
    const OrderedJson document = OrderedJson::parse(json);
    if (!document.is_object()) corrupt("not a JSON object");
    for (const auto& [name, entry] : document.items()) {
      if (name == kMetadata) {
        header.metadata = entry.get<std::map<std::string, std::string>>();
      } else {
        header.tensors.push_back(parse_tensor(name, entry, data_bytes));
      }
    }
  } catch (const OrderedJson::exception& error) {
    corrupt(error.what());
  }
  return header;
}

}  // namespace ddp::internal

// These functions make a client's requests about keys.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "wire/store_message.h"

namespace ddp::store {

// PyTorch's clients put a slash before every key. This client does the same, so that both see the same keys.
inline std::string wire_key(const std::string& key) {
  return "/" + key;
}
inline std::vector<std::string> wire_keys(std::span<const std::string> keys) {
  std::vector<std::string> result;
  for (const std::string& key : keys) result.push_back(wire_key(key));
  return result;
}

inline wire::StoreRequest about(wire::StoreOp op, const std::string& key, std::vector<std::string> values = {},
                                std::int64_t delta = 0) {
  return {.op = op, .keys = {wire_key(key)}, .values = std::move(values), .delta = delta};
}
inline wire::StoreRequest about(wire::StoreOp op, std::span<const std::string> keys) {
  return {.op = op, .keys = wire_keys(keys), .values = {}};
}
inline wire::StoreRequest bare(wire::StoreOp op) {
  return {.op = op, .keys = {}, .values = {}};
}

}  // namespace ddp::store

// These functions format and check keys for messages.
#pragma once

#include <span>
#include <string>

namespace ddp::store {

// Returns text such as "key 'a'" or "6 keys 'a', 'b', 'c', 'd', …".
std::string name_keys(std::span<const std::string> keys);

// Throws invalid_argument unless multi_set() has as many values as keys.
void require_pairs(std::span<const std::string> keys, std::span<const std::string> values);

}  // namespace ddp::store

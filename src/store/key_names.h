// Keys as messages name them.
#pragma once

#include <span>
#include <string>

namespace ddp::store {

// "key 'a'", or "6 keys 'a', 'b', 'c', 'd', …".
std::string name_keys(std::span<const std::string> keys);

}  // namespace ddp::store

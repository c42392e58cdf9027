#include "store/key_names.h"

#include <algorithm>

namespace ddp::store {

std::string name_keys(std::span<const std::string> keys) {
  std::string text = keys.size() == 1 ? "key '" : std::to_string(keys.size()) + " keys '";
  for (std::size_t i = 0; i < std::min<std::size_t>(keys.size(), 4); ++i) {
    if (i > 0) text += "', '";
    text += keys[i];
  }
  return text + (keys.size() > 4 ? "', …" : "'");
}

}  // namespace ddp::store

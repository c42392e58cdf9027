#include "store/key_names.h"

#include <ddp/error.h>

#include <algorithm>
#include <iterator>

#include "base/text.h"

namespace ddp::store {

std::string name_keys(std::span<const std::string> keys) {
  std::string text = keys.size() == 1 ? "key '" : std::to_string(keys.size()) + " keys '";
  for (std::size_t i = 0; i < std::min<std::size_t>(keys.size(), 4); ++i) {
    if (i > 0) text += "', '";
    text += keys[i];
  }
  return text + (keys.size() > 4 ? "', …" : "'");
}

void require_pairs(std::span<const std::string> keys, std::span<const std::string> values) {
  if (keys.size() == values.size()) return;
  throw Error(ErrorKind::invalid_argument, "multi_set: " + base::counted(std::ssize(keys), "key") + " but " +
                                               base::counted(std::ssize(values), "value"));
}

}  // namespace ddp::store

#include "launcher/job/hub_words.h"

#include "base/text.h"

namespace ddp::launcher {

std::string place_text(const std::string& host, const std::string& address, int first_rank, int workers) {
  const std::string ranks =
      workers == 1 ? "rank " + std::to_string(first_rank)
                   : "ranks " + std::to_string(first_rank) + "-" + std::to_string(first_rank + workers - 1);
  return host + " (" + ranks + (address.empty() ? "" : ", " + address) + ")";
}

std::string some_of(std::vector<std::string> names) {
  if (names.size() <= kNamedNodes) return base::join(names, ", ");
  const auto more = names.size() - kNamedNodes;
  names.resize(kNamedNodes);
  return base::join(names, ", ") + ", … and " + std::to_string(more) + " more";
}

}  // namespace ddp::launcher

#include "launcher/causes/cause.h"

namespace ddp::launcher {

std::span<const Cause> causes_of_communication() {
  return {};
}

}  // namespace ddp::launcher

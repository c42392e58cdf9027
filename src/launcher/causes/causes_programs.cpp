#include "launcher/causes/cause.h"

namespace ddp::launcher {

std::span<const Cause> causes_of_programs() {
  return {};
}

}  // namespace ddp::launcher

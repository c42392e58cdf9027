#include "launcher/causes/cause.h"

namespace ddp::launcher {

std::span<const Cause> causes_of_data_parallel() {
  return {};
}

}  // namespace ddp::launcher

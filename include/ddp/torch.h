// The old name of ddp/libtorch.h, for one release.
#pragma once

#include <ddp/libtorch.h>

namespace ddp {

namespace torch = libtorch;

}  // namespace ddp

// This header is the old name of ddp/libtorch.h, kept for one release.
#pragma once

#include <ddp/libtorch.h>

namespace ddp {

namespace torch = libtorch;

}  // namespace ddp

#include "runtime/call/called_from.h"

namespace ddp::internal {

CallSite& CalledFrom::place() {
  thread_local CallSite place;
  return place;
}

}  // namespace ddp::internal

#include "runtime/call/called_from.h"

namespace ddp::internal {

CallSite& CalledFrom::place() {
  // The place is stored per thread, because a communication hook of the program calls the group itself and has no
  // parameter for the place.
  thread_local CallSite place;
  return place;
}

}  // namespace ddp::internal

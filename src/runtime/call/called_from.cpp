#include "runtime/call/called_from.h"

namespace ddp::internal {

CallSite& CalledFrom::place() {
  // The thread carries it: a communication hook of the program calls the group itself, and has no parameter for it.
  thread_local CallSite place;
  return place;
}

}  // namespace ddp::internal

#include "runtime/call/called_from.h"

namespace ddp {

CallSite& CalledFrom::place() {
  thread_local CallSite place;
  return place;
}

}  // namespace ddp

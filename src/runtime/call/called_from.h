// CalledFrom records the program's call for which the library makes collectives.
#pragma once

#include <ddp/call_site.h>

namespace ddp::internal {

// While it lives, this thread's collectives count as called at `site`. So a gradient bucket's all_reduce is shown at
// the program's mark_ready(), and not at the library's line that fills buckets. If several are nested, the outermost
// one counts.
class CalledFrom {
 public:
  explicit CalledFrom(CallSite site) : before_(place()) {
    if (before_.line == 0) place() = site;
  }
  ~CalledFrom() { place() = before_; }
  CalledFrom(const CalledFrom&) = delete;
  CalledFrom& operator=(const CalledFrom&) = delete;

  // Returns where the program made the call that leads to the present call at `inner`.
  static CallSite outermost(CallSite inner) { return place().line == 0 ? inner : place(); }

 private:
  // The place is stored per thread, because a communication hook of the program calls the group itself and has no
  // parameter for the place.
  static CallSite& place() {
    thread_local CallSite place;
    return place;
  }

  const CallSite before_;
};

}  // namespace ddp::internal

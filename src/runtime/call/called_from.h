// CalledFrom: whose call a collective is that the library makes for the program.
#pragma once

#include <ddp/call_site.h>

namespace ddp::internal {

// While it lives, this thread's collectives count as called at `site`: a gradient bucket's all_reduce is shown at the
// program's mark_ready(), not at the line of the library that fills buckets. Of several the outermost counts.
class CalledFrom {
 public:
  explicit CalledFrom(CallSite site) : before_(place()) {
    if (before_.line == 0) place() = site;
  }
  ~CalledFrom() { place() = before_; }
  CalledFrom(const CalledFrom&) = delete;
  CalledFrom& operator=(const CalledFrom&) = delete;

  // Where the program called what now makes a call at `inner`.
  static CallSite outermost(CallSite inner) { return place().line == 0 ? inner : place(); }

 private:
  static CallSite& place();

  const CallSite before_;
};

}  // namespace ddp::internal

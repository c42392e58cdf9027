#include "runtime/progress/worker_progress.h"

#include <ddp/ddp.h>

#include "support/catch.h"

using namespace ddp;
using namespace ddp::internal;

// integration/status_page_test.py tests what the page shows, with a launcher.
TEST_CASE("phases do nothing without a launcher") {
  const PhaseScope outer(Phase::evaluation,
                         "validation set with a name that is longer than there is room for on a page");
  {
    const PhaseScope inner(Phase::checkpoint);
    enter_phase(Phase::training);
  }
  heartbeat();
  request_more_time(std::chrono::seconds(10));
  report_progress(3, 10);
  CHECK_FALSE(should_stop());
}

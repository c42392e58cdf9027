// Implements the functions of <ddp/c.h> for operations under way.
#include <ddp/work.h>

#include <chrono>

#include "runtime/c/boundary.h"
#include "runtime/c/c_call.h"
#include "runtime/c/handles.h"

using namespace ddp::internal;

int ddp_work_wait(ddp_work* work) {
  return at_boundary([&] { handles().works.find("ddp_work_wait", work)->wait(); });
}

int ddp_work_wait_for(ddp_work* work, int64_t timeout_ms, int32_t* done) {
  return at_boundary([&] {
    require_output("ddp_work_wait_for", "done", done);
    const auto operation = handles().works.find("ddp_work_wait_for", work);
    const auto limit = timeout_of("ddp_work_wait_for", timeout_ms).value_or(std::chrono::milliseconds(0));
    *done = 1;  // stays 1 if wait_for() throws, because the operation has then failed
    if (!operation->wait_for(limit)) *done = 0;
  });
}

int ddp_work_test(ddp_work* work, int32_t* done) {
  return at_boundary([&] {
    require_output("ddp_work_test", "done", done);
    const auto operation = handles().works.find("ddp_work_test", work);
    if (!operation->done()) return;
    *done = 1;
    operation->wait();
  });
}

int ddp_work_destroy(ddp_work* work) {
  return at_boundary([&] {
    if (work != nullptr) handles().works.take("ddp_work_destroy", work);
  });
}

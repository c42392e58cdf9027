#include "base/side_thread.h"

#include <poll.h>

#include <future>
#include <memory>
#include <string>

#include "support/catch.h"

using ddp::base::SideThread;

namespace {

void wait_until_ready(int fd) {
  pollfd ready{fd, POLLIN, 0};
  REQUIRE(::poll(&ready, 1, 20'000) == 1);
}

}  // namespace

TEST_CASE("a side thread delivers its result once") {
  SideThread<std::string> thread([] { return std::string("done"); });
  wait_until_ready(thread.ready());
  CHECK(thread.result() == "done");
  CHECK_FALSE(thread.result());
}

TEST_CASE("a side thread can be dropped without waiting for it") {
  auto may_end = std::make_shared<std::promise<void>>();
  auto has_ended = std::make_shared<std::promise<void>>();
  {
    SideThread<int> thread([may_end, has_ended] {
      may_end->get_future().wait();
      has_ended->set_value();
      return 1;
    });
    CHECK_FALSE(thread.result());
  }
  may_end->set_value();
  CHECK(has_ended->get_future().wait_for(std::chrono::seconds(20)) == std::future_status::ready);
}

#include "runtime/call/called_from.h"

#include <string>
#include <thread>

#include "support/catch.h"

using namespace ddp;
using namespace ddp::internal;

TEST_CASE("the outermost source location on the current thread is reported") {
  const CallSite library{"library.cpp", 1};
  const auto line = [&] { return CalledFrom::outermost(library).line; };
  CHECK(line() == 1);
  {
    const CalledFrom program({"train.cpp", 30});
    const CalledFrom hook({"hook.cpp", 7});
    CHECK(line() == 30);
    CHECK(std::string(CalledFrom::outermost(library).file) == "train.cpp");
    int other = 0;
    std::thread([&] { other = line(); }).join();
    CHECK(other == 1);
  }
  CHECK(line() == 1);
  const CalledFrom nowhere({});
  CHECK(line() == 1);
}

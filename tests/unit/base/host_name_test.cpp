#include "base/host_name.h"

#include <sys/utsname.h>

#include "support/catch.h"

TEST_CASE("the host name is the one that uname returns") {
  utsname names{};
  REQUIRE(::uname(&names) == 0);
  CHECK(ddp::base::host_name() == (names.nodename[0] == '\0' ? "localhost" : std::string(names.nodename)));
}

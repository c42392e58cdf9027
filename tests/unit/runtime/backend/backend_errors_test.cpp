#include "runtime/backend/backend_errors.h"

#include "support/catch.h"

using namespace ddp;
using namespace ddp::internal;
using namespace std::chrono_literals;

TEST_CASE("each late rank is named once") {
  const Error some = late_nodes_error({3, 2, 2, 3}, 1s);
  CHECK(std::string(some.what()).find("of ranks 2, 3, on other nodes, did not take part within 1.0 s") !=
        std::string::npos);
  const Error one = late_nodes_error({2, 2}, 1s);
  CHECK(std::string(one.what()).find("rank 2 did not take part within 1.0 s") != std::string::npos);
  CHECK(one.peer() == 2);
}

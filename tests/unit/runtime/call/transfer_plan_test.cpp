#include "runtime/call/transfer_plan.h"

#include "support/calls.h"
#include "support/catch.h"

using namespace ddp;
using namespace ddp::internal;
using namespace ddp::test;

namespace {

// Returns two letters for each rank, as seen by rank 1 of 3. The letter is g if rank 1 gives to it, and t if it takes
// from it.
std::string seen_by_rank_1(Operation operation, int root) {
  std::vector<float> in(6);
  std::vector<float> out(6);
  const Call call = call_of(operation, in, out, root);
  const TransferPlan plan{call, 1, 3};
  std::string text;
  for (int other = 0; other < 3; ++other) {
    text += plan.given_to(other).count > 0 ? 'g' : '-';
    text += plan.taken_from(other).count > 0 ? 't' : '-';
    text += ' ';
  }
  return text;
}

}  // namespace

TEST_CASE("the transfer plan of each collective moves the required data between the right ranks") {
  CHECK(seen_by_rank_1(Operation::broadcast, 0) == "-t -- -- ");
  CHECK(seen_by_rank_1(Operation::broadcast, 1) == "g- gt g- ");
  CHECK(seen_by_rank_1(Operation::gather, 0) == "g- -- -- ");
  CHECK(seen_by_rank_1(Operation::gather, 1) == "-t gt -t ");
  CHECK(seen_by_rank_1(Operation::scatter, 0) == "-t -- -- ");
  CHECK(seen_by_rank_1(Operation::scatter, 1) == "g- gt g- ");
  CHECK(seen_by_rank_1(Operation::all_gather, -1) == "gt gt gt ");
  CHECK(seen_by_rank_1(Operation::all_to_all, -1) == "gt gt gt ");
  CHECK(seen_by_rank_1(Operation::reduce_scatter, -1) == "gt gt gt ");
}

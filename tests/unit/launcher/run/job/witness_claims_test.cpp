#include "launcher/run/job/witness_claims.h"

#include "launcher/limits.h"
#include "support/catch.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;
using Kind = ClaimAnswer::Kind;

namespace {

constexpr WitnessClaims::TimePoint kNow{1h};

}  // namespace

TEST_CASE("nothing is claimed without a witness") {
  WitnessClaims claims("");
  CHECK_FALSE(claims.has_witness());
  CHECK_FALSE(claims.begin(0, kNow));
  CHECK_FALSE(claims.holds(0));
}

TEST_CASE("each electorate is claimed once, and the answer is final") {
  WitnessClaims claims("/w");
  CHECK_FALSE(claims.holds(-1));
  CHECK(claims.begin(0, kNow));
  CHECK_FALSE(claims.begin(0, kNow + 1h));
  CHECK(claims.why_not(0) == "the witness /w does not answer");
  claims.end(0, {Kind::granted}, kNow);
  CHECK(claims.holds(0));
  CHECK_FALSE(claims.holds(1));
  claims.end(0, {Kind::taken, "b"}, kNow);
  CHECK(claims.holds(0));
  CHECK_FALSE(claims.begin(0, kNow + 1h));
  CHECK(claims.begin(1, kNow));
  CHECK_FALSE(claims.holds(1));
  // An answer about an earlier electorate comes late.
  claims.end(0, {Kind::granted}, kNow);
  CHECK_FALSE(claims.holds(1));
  claims.end(1, {Kind::taken, "b (pid 7)"}, kNow);
  CHECK(claims.is_taken(1));
  CHECK(claims.why_not(1) == "b (pid 7) has claimed the job before, in the witness /w");
  CHECK_FALSE(claims.begin(1, kNow + 1h));
  CHECK_FALSE(claims.begin(0, kNow + 1h));
}

TEST_CASE("a failed claim is repeated after a pause") {
  WitnessClaims claims("/w");
  CHECK(claims.why_not(3) == "it was too late to claim the job in the witness /w");
  CHECK(claims.begin(3, kNow));
  claims.end(3, {Kind::failed, "no space"}, kNow);
  CHECK_FALSE(claims.holds(3));
  CHECK_FALSE(claims.is_taken(3));
  CHECK(claims.why_not(3) == "the witness /w cannot be used: no space");
  CHECK_FALSE(claims.begin(3, kNow));
  CHECK(claims.begin(3, kNow + ddp::limits::kClaimPause));
  claims.end(3, {Kind::granted}, kNow);
  CHECK(claims.holds(3));
}

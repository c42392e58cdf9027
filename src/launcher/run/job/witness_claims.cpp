#include "launcher/run/job/witness_claims.h"

#include "launcher/limits.h"

namespace ddp::launcher {

bool WitnessClaims::begin(int attempt, TimePoint now) {
  if (!has_witness() || attempt < attempt_) return false;
  const bool is_new = attempt > attempt_ || (is(attempt, ClaimAnswer::Kind::failed) && now >= again_at_);
  if (!is_new) return false;
  attempt_ = attempt;
  answer_.reset();
  return true;
}

void WitnessClaims::end(int attempt, const ClaimAnswer& answer, TimePoint now) {
  if (!is_newest(attempt) || answer_) return;
  answer_ = answer;
  again_at_ = now + limits::kClaimPause;
}

std::string WitnessClaims::why_not(int attempt) const {
  if (!is_newest(attempt)) return "it was too late to claim the job in the witness " + witness_;
  if (!answer_) return "the witness " + witness_ + " does not answer";
  if (is_taken(attempt)) return answer_->text + " has claimed the job before, in the witness " + witness_;
  return "the witness " + witness_ + " cannot be used: " + answer_->text;
}

}  // namespace ddp::launcher

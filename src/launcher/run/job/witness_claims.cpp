#include "launcher/run/job/witness_claims.h"

#include "launcher/limits.h"

namespace ddp::launcher {

bool WitnessClaims::begin(int attempt, TimePoint now) {
  if (!has_witness() || attempt < attempt_) return false;
  const bool is_new = attempt > attempt_ || (state_ == State::failed && now >= again_at_);
  if (!is_new) return false;
  attempt_ = attempt;
  state_ = State::waiting;
  return true;
}

void WitnessClaims::end(int attempt, const ClaimAnswer& answer, TimePoint now) {
  if (!is(attempt, State::waiting)) return;
  using Kind = ClaimAnswer::Kind;
  state_ = answer.kind == Kind::granted ? State::granted : answer.kind == Kind::taken ? State::taken : State::failed;
  text_ = answer.text;
  again_at_ = now + limits::kClaimPause;
}

std::string WitnessClaims::why_not(int attempt) const {
  if (is(attempt, State::taken)) return text_ + " has claimed the job before, in the witness " + witness_;
  if (is(attempt, State::failed)) return "the witness " + witness_ + " cannot be used: " + text_;
  if (is(attempt, State::waiting)) return "the witness " + witness_ + " does not answer";
  return "it was too late to claim the job in the witness " + witness_;
}

}  // namespace ddp::launcher

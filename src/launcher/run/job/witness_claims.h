// WitnessClaims is what one node knows of its claims to lead the job. With two nodes, neither is a majority. The one
// leads that is the first to claim their electorate in a directory that the user names (--witness). It is pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace ddp::launcher {

// Says what became of a claim. `text` names the node that has claimed before, or says why it is unknown what became of
// the claim.
struct ClaimAnswer {
  enum class Kind : std::uint8_t { granted, taken, failed };
  Kind kind = Kind::failed;
  std::string text = {};
};

class WitnessClaims {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // `witness` is the directory, for messages; empty if there is none.
  explicit WitnessClaims(std::string witness) : witness_(std::move(witness)) {}

  bool has_witness() const { return !witness_.empty(); }
  // Returns whether the electorate of this attempt must be claimed now, which the caller does. A claim that has failed
  // is repeated after a pause.
  bool begin(int attempt, TimePoint now);
  void end(int attempt, const ClaimAnswer& answer, TimePoint now);

  // Returns whether this node has claimed the electorate first. That is final.
  bool holds(int attempt) const { return is(attempt, ClaimAnswer::Kind::granted); }
  // Returns whether another node has. That is final, too.
  bool is_taken(int attempt) const { return is(attempt, ClaimAnswer::Kind::taken); }
  // Returns why this node does not lead, as in "b has claimed the job before, in the witness /shared/w".
  std::string why_not(int attempt) const;

 private:
  bool is_newest(int attempt) const { return attempt >= 0 && attempt == attempt_; }
  bool is(int attempt, ClaimAnswer::Kind kind) const { return is_newest(attempt) && answer_ && answer_->kind == kind; }

  const std::string witness_;
  int attempt_ = -1;  // of the newest claim
  std::optional<ClaimAnswer> answer_;
  TimePoint again_at_;
};

}  // namespace ddp::launcher

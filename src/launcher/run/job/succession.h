// Decides who leads a job when its coordinator is lost (docs/development/decisions/0078-any-node-may-lead.md). All of
// it is pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "wire/control_message.h"

namespace ddp::launcher {

// Returns the number that a node had in this attempt, or -1.
int node_rank_in(std::span<const wire::Membership> memberships, int attempt);
// Returns the number with which a node of these memberships votes in the electorate, or -1 if it does not. If it knows
// of a newer attempt, the coordinator may have another electorate already, in which the node counts.
int vote_in(std::span<const wire::Membership> memberships, const wire::Electorate& electorate);
// Adds a membership. Only the two newest are kept.
void remember(std::vector<wire::Membership>& memberships, wire::Membership membership);

// Returns what both know: the newer electorate, or all that is gone of the same one.
wire::Electorate merged(wire::Electorate one, const wire::Electorate& other);
wire::Electorate without(wire::Electorate electorate, int node_rank);

// Returns whether these of its nodes may decide for all: they are more than half of those that are not gone.
bool is_majority(const wire::Electorate& electorate, const std::set<int>& node_ranks);
// Returns whether a node of this number is one of those that decide.
bool is_voter(const wire::Electorate& electorate, int node_rank);
// Returns whether one node leads the electorate with a claim at a witness: there are two, and no death is proven.
// Electorates that have shrunk to two do not count, because nodes may differ in what they know of the others.
bool may_be_claimed(const wire::Electorate& electorate);

// Says how a coordinator leads its electorate.
enum class Leads : std::uint8_t {
  as_half,   // with at least half of the nodes
  by_both,   // with both nodes: one of them alone could lead with a claim
  by_claim,  // alone: it has claimed the electorate
};
// Returns of how many others the coordinator of the electorate needs answers to lead it. As half, the others are no
// majority, because they and this one are at least half of those that are not gone.
int others_needed(const wire::Electorate& electorate, Leads leads = Leads::as_half);
// Returns whether a new attempt may replace the electorate. `know` are those of its nodes that know of the attempt, and
// `connected` are connected to the coordinator. Nodes that know no longer vote in the old electorate: see vote_in(). No
// majority can come together there without them: neither of all if the coordinator is silent, nor of those without the
// coordinator if it is dead, which only nodes that are still connected can find out. By both, the other node could
// claim the electorate if it did not know of the attempt.
bool may_be_replaced(const wire::Electorate& electorate, const std::set<int>& know, const std::set<int>& connected,
                     Leads leads = Leads::as_half);

// What a node knows that takes over a job whose coordinator is lost.
struct Takeover {
  wire::Vote vote;
  wire::Cause cause;                               // why its last attempt ends
  std::chrono::steady_clock::time_point began_at;  // when that attempt did
};

// Succession is what one node knows about who may lead its job.
class Succession {
 public:
  void hears(const wire::CoordinatorBegins& begins);
  void hears(const wire::Electorate& electorate);
  void hears(const wire::Standing& standing);  // as a spare node
  void coordinator_died();
  void coordinator_is_silent() { standing_.electorate.leader = -1; }
  // This node follows another one.
  void follows(const wire::Successor& successor);

  // Returns whether the job may go on without its coordinator.
  bool is_possible() const { return !standing_.job_key.empty() && !standing_.successors.empty(); }
  // Returns whether this node has had a part in the job.
  bool is_member() const { return !memberships_.empty(); }
  // Returns the nodes that lead rather than this one, in their order.
  std::vector<wire::Successor> before_this() const;
  // Returns whether this node leads if none of these does.
  bool may_lead() const;
  wire::Vote vote(bool has_ended) const;
  const std::string& job_key() const { return standing_.job_key; }

 private:
  int attempt_ = -1;  // the newest one
  wire::Standing standing_;
  std::vector<wire::Membership> memberships_;
};

// Election is what a node that may lead knows about the votes of the others.
class Election {
 public:
  // `own` is the vote of the node itself.
  explicit Election(wire::Vote own);

  void add(std::uint64_t who, const wire::Vote& vote);
  // The node is lost. If it has ended, it votes for no other one.
  void lose(std::uint64_t who, bool has_ended);

  // Returns whether this node leads the job.
  bool is_decided() const;
  // Returns whether all have voted that could.
  bool is_complete() const;
  // Returns whether this node may claim the electorate at a witness.
  bool may_claim() const;
  // Returns a text such as "2 of 3 nodes".
  std::string describe() const;

  const wire::Electorate& electorate() const { return electorate_; }
  int attempt() const { return attempt_; }
  const wire::RestartHistory& history() const { return history_; }

 private:
  std::set<int> voters() const;
  void learn(const wire::Vote& vote);

  const wire::Vote own_;
  std::map<std::uint64_t, wire::Vote> votes_;
  wire::Electorate electorate_;
  int attempt_ = -1;
  wire::RestartHistory history_;
};

}  // namespace ddp::launcher

// Conclusion: how a job ends for this node, when its coordinator has said so. Pure.
#pragma once

#include <optional>
#include <string>

#include "launcher/job/outcome.h"
#include "wire/control_message.h"

namespace ddp::launcher {

struct LastFacts {
  std::optional<JobOutcome> last;  // of the attempt that no other one follows; nothing: another one was to follow
  std::string what_followed;       // as the user was told with it
  RootCause asked;                 // who asked this node to end while no attempt ran
  bool in_haste = false;           // it left without the coordinator's word
  bool is_alone = false;           // a job of one node
  bool has_run = false;            // any attempt
  std::string own_name;            // this node's, as causes have it
};

struct Conclusion {
  JobOutcome outcome;
  std::string line;                         // for the user, who has not been told; empty: nothing
  bool was_ended_between_attempts = false;  // the user does not know it yet
};

// `cause`: of the end, the same on all nodes, and with it the exit code.
Conclusion conclude(LastFacts facts, const wire::Cause& cause);

}  // namespace ddp::launcher

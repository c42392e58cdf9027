// Claims a job in a directory that the nodes share (docs/development/decisions/0078-any-node-may-lead.md). These
// functions block, and may hang as long as the file system does.
#pragma once

#include <string>

#include "base/result.h"
#include "launcher/run/job/witness_claims.h"

namespace ddp::launcher {

// Returns a name that all nodes read in the same directory, and in no other one. Fails, with a sentence for the user,
// if nodes cannot claim anything there.
base::Result<std::string> identify_witness(const std::string& directory);

// Returns the text of a claim. Its first line names the process, and no two texts are alike.
std::string claim_text(const std::string& host);

// Claims `name`, which one process does first. A file of that name then has the text of its claim, and stays. A process
// may claim again what it has claimed.
ClaimAnswer claim(const std::string& directory, const std::string& name, const std::string& text);

}  // namespace ddp::launcher

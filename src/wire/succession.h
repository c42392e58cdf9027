// These values describe who may lead a job after its coordinator
// (docs/development/decisions/0078-any-node-may-lead.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ddp::wire {

// A node that has lost the coordinator may become it, if it listens.
struct Successor {
  int node_rank = 0;  // in the newest attempt
  std::string address;
  std::uint16_t port = 0;

  friend bool operator==(const Successor&, const Successor&) = default;
};

// Names the nodes that decide together: those of an attempt, by their node ranks in it.
struct Electorate {
  int attempt = -1;  // -1 if there are none
  int nodes = 0;
  int leader = -1;        // the coordinator; -1 if it is not one of them
  std::vector<int> gone;  // lost or dead, and never back; ascending

  friend bool operator==(const Electorate&, const Electorate&) = default;
};

// The number of a node in an attempt.
struct Membership {
  int attempt = -1;
  int node_rank = -1;

  friend bool operator==(const Membership&, const Membership&) = default;
};

// Says what the attempts so far mean for another one.
struct RestartHistory {
  std::int64_t job_began = 0;  // Unix time, ms
  int counted = 0;             // failures that count in --max-restarts
  int in_vain = 0;             // attempts in a row, with the last one, that made no progress
  bool last_counts = false;
  bool last_is_seen = false;  // the launcher can see the steps of the last one
  bool is_repeated = false;   // the last two failed with the same error at the same step
  std::string last_error;
  std::int64_t last_step = -1;

  friend bool operator==(const RestartHistory&, const RestartHistory&) = default;
};

// Describes a job for the case that its coordinator is lost. Each node gets it.
struct Standing {
  std::string job_key;  // random; empty if no other node may lead the job
  Electorate electorate;
  std::vector<Successor> successors;  // some of the nodes, in the order in which they may lead
  RestartHistory history;             // before the newest attempt

  friend bool operator==(const Standing&, const Standing&) = default;
};

// What a node that has lost its coordinator says to another one. Without a key, it is a node that comes to the job.
struct Vote {
  std::string job_key;
  int attempt = -1;  // the newest one that it knows
  Electorate electorate;
  RestartHistory history;
  std::vector<Membership> memberships;
  bool has_ended = true;  // none of its workers runs

  friend bool operator==(const Vote&, const Vote&) = default;
};

}  // namespace ddp::wire

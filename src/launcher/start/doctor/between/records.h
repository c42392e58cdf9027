// The values that the nodes of a job tell each other while the doctor checks them. See node_worker.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/start/doctor/finding.h"
#include "wire/json_fields.h"

namespace ddp::launcher::doctor {

// Where the other nodes reach a node.
struct NodeAddress {
  int node = 0;  // its number in the job
  std::string host;
  std::string address;
  std::vector<std::uint16_t> ports;  // chosen by the kernel
  std::uint16_t endpoint_port = 0;   // the port at which the nodes have met; 0 if it is taken on this node
  std::uint16_t datagram_port = 0;   // 0 if the node receives none

  friend bool operator==(const NodeAddress&, const NodeAddress&) = default;
};

// Something that should be the same on all nodes, such as a version.
struct Fact {
  std::string name;
  std::string value;
  bool matters = false;  // a difference breaks jobs or slows them

  friend bool operator==(const Fact&, const Fact&) = default;
};

// What a node has found about itself.
struct NodeFindings {
  int node = 0;
  std::string host;
  int workers = 1;
  int gpus = 0;
  Findings findings;
  std::vector<Fact> facts;
  std::string folder;      // of the checkpoints; empty if none is named
  std::string interfaces;  // that the ranks are to use, as NCCL_SOCKET_IFNAME or GLOO_SOCKET_IFNAME names them
  std::string kept;  // NodeResult::id of an earlier check of this allocation, which stands for this one; may be empty

  friend bool operator==(const NodeFindings&, const NodeFindings&) = default;
};

// How a connection to a port of another node ended.
enum class Reach : std::uint8_t {
  open,         // the node answers
  refused,      // something refuses the connection, although the node listens
  dropped,      // nothing answers
  unreachable,  // there is no route
  foreign,      // something else answers
  silent,       // there is a connection, and no answer
};
constexpr Reach last_of(Reach) {
  return Reach::silent;
}

// What became of many bytes at once, of which one direction may lose those in large packets.
enum class Flow : std::uint8_t { unknown, arrives, lost_there, lost_back };
constexpr Flow last_of(Flow) {
  return Flow::lost_back;
}

// What a node has found about the way to another one.
struct Path {
  int to = 0;
  std::vector<Reach> ports;  // NodeAddress::ports
  Reach endpoint_port = Reach::open;
  std::string why;                      // what the system says of a port that is not open
  Flow large = Flow::unknown;           // in packets as large as the nodes agree on
  Flow small = Flow::unknown;           // the same in small packets; tried if large ones are lost
  int datagrams = 0;                    // of the other node that have arrived
  double round_trip_us = 0;             // the median; 0 if it is unknown
  std::optional<double> clock_ahead_s;  // how much the other clock is ahead
  std::vector<std::string> name_means;  // addresses of the other node's host name, in their order

  friend bool operator==(const Path&, const Path&) = default;
};
struct NodePaths {
  int node = 0;
  std::vector<Path> paths;
  bool shares_folder = true;  // the node sees a file that the first one has made in the folder of the checkpoints

  friend bool operator==(const NodePaths&, const NodePaths&) = default;
};

// How fast two nodes exchange data, in bytes per second.
struct Speed {
  int node = 0;
  int other = 0;
  double there = 0;  // from `node` to `other`
  double back = 0;

  friend bool operator==(const Speed&, const Speed&) = default;
};

// All that is known of the nodes of a job. What a node did not tell in time is missing.
struct JobRecord {
  std::vector<NodeAddress> addresses;  // by node
  std::vector<NodeFindings> findings;
  std::vector<NodePaths> paths;  // by node, and within a node by the other one
  std::vector<Speed> speeds;
  int datagrams_sent = 0;  // by each node to each other one

  friend bool operator==(const JobRecord&, const JobRecord&) = default;
};

BOOST_DESCRIBE_STRUCT(NodeAddress, (), (node, host, address, ports, endpoint_port, datagram_port))
BOOST_DESCRIBE_STRUCT(Fact, (), (name, value, matters))
BOOST_DESCRIBE_STRUCT(NodeFindings, (), (node, host, workers, gpus, findings, facts, folder, interfaces, kept))
BOOST_DESCRIBE_STRUCT(Path, (),
                      (to, ports, endpoint_port, why, large, small, datagrams, round_trip_us, clock_ahead_s,
                       name_means))
BOOST_DESCRIBE_STRUCT(NodePaths, (), (node, paths, shares_folder))
BOOST_DESCRIBE_STRUCT(Speed, (), (node, other, there, back))
BOOST_DESCRIBE_STRUCT(JobRecord, (), (addresses, findings, paths, speeds, datagrams_sent))

}  // namespace ddp::launcher::doctor

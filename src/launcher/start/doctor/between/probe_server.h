// ProbeServer lets other nodes find out what reaches this one: ports, many bytes at once, datagrams and their speed.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "launcher/start/doctor/between/records.h"
#include "net/socket.h"

namespace ddp::launcher::doctor {

inline constexpr int kProbePorts = 3;
inline constexpr auto kProbeVisit = std::chrono::seconds(20);  // the longest time of one connection

// What a node asks of another one. The key belongs to the job, so that no other program is served.
struct ProbeRequest {
  enum class What : std::uint32_t {
    echo,      // answer
    take,      // receive `amount` bytes, and answer
    give,      // send `amount` bytes
    take_all,  // receive until the other side has sent all, and answer with the number of bytes
    give_for,  // send for `amount` milliseconds, and close the connection
  };
  std::uint64_t key = 0;
  What what = What::echo;
  std::uint32_t node = 0;  // that asks
  std::uint64_t amount = 0;
};
struct ProbeAnswer {
  std::uint64_t node = 0;  // that answers
  std::int64_t unix_ns = 0;
  std::uint64_t bytes = 0;
};
static_assert(sizeof(ProbeRequest) == 24 && sizeof(ProbeAnswer) == 24);

// A datagram is the key and the number of the node that has sent it.
struct ProbeDatagram {
  std::uint64_t key = 0;
  std::uint64_t node = 0;
};

// The messages are sent as they are in memory. All processors for which this is built have the same order of bytes.
template <typename T>
std::span<char> bytes_of(T& message) {
  return {reinterpret_cast<char*>(&message), sizeof message};
}

// Each connection has a thread.
class ProbeServer {
 public:
  // Listens at this address of the node. `endpoint_port` is that at which the nodes have met.
  static base::Result<std::unique_ptr<ProbeServer>> open(const NodeAddress& own, std::uint64_t key);
  ~ProbeServer();
  ProbeServer(const ProbeServer&) = delete;
  ProbeServer& operator=(const ProbeServer&) = delete;

  // Returns where the other nodes reach this one.
  const NodeAddress& address() const { return address_; }
  // Returns how many datagrams of each node have arrived.
  std::map<int, int> datagrams() const;
  // Sends a datagram to each of these nodes, this often, with a pause after each round.
  void send_datagrams(const std::vector<NodeAddress>& to, int rounds, std::chrono::milliseconds pause) const;

 private:
  ProbeServer(NodeAddress own, std::uint64_t key) : address_(std::move(own)), key_(key) {}
  void serve();
  void receive_datagrams();

  NodeAddress address_;
  const std::uint64_t key_;
  std::vector<base::UniqueFd> listeners_;
  base::UniqueFd datagrams_;
  base::UniqueFd end_;
  mutable std::mutex mutex_;
  std::map<int, int> arrived_;  // datagrams by node
  std::thread thread_;
};

}  // namespace ddp::launcher::doctor

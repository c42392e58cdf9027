// GlooWatch watches the peers of threads that wait for Gloo's messages, and ends waits that are in vain.
#pragma once

#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>

#include "runtime/peers/node_group.h"

namespace ddp::internal {

// The last messages of a lost peer may have arrived or be on their way. So a thread that waits for another peer's
// message is first redirected to a message of the lost peer. Only that wait is in vain, some samples later. The class
// is thread-safe.
class GlooWatch {
 public:
  struct Message {
    std::unique_ptr<gloo::transport::UnboundBuffer> memory;
    int peer = 0;
    bool is_outgoing = false;
  };

  // Watches the processes of the ranks of this node, which `node` holds. If `node` is null, it watches none.
  explicit GlooWatch(std::shared_ptr<NodeGroup> node);
  ~GlooWatch();
  GlooWatch(const GlooWatch&) = delete;
  GlooWatch& operator=(const GlooWatch&) = delete;

  // Watches the connections to the other ranks from now on, until leave_connections().
  void watch_connections(gloo::Context& connections);
  void leave_connections();

  using Clock = std::chrono::steady_clock;
  enum class End : std::uint8_t {
    arrived,
    again,    // the caller waits again
    in_vain,  // the peer is gone
    late,     // the deadline has passed
  };

  // Returns the message that the caller is to wait for now. The messages must not move until end_wait(). `owner`
  // identifies the caller. If `once_more` is set, the previous wait was in vain, and this one is in vain at the next
  // sample. Throws `aborted`.
  const Message& begin_wait(const void* owner, std::span<const Message> messages, bool once_more,
                            Clock::time_point deadline);
  // Ends the wait. `arrived` is true if the message has arrived. Throws `aborted`.
  End end_wait(const void* owner, bool arrived);
  void forget(const void* owner);

  // Ends all current and later waits.
  void abort();
  bool aborted() const;
  [[noreturn]] static void throw_aborted();

  // Describes a peer of this node that is gone.
  struct Lost {
    int rank = 0;
    bool failed = false;
  };
  // Returns a peer of this node that is gone, or std::nullopt. A peer that ended without a report takes precedence over
  // one that failed, because the failure may be a consequence.
  std::optional<Lost> lost() const;

 private:
  // Times are counted in samples. If this thread ran for a sample, Gloo's thread ran as well.
  struct Wait {
    const Message* current = nullptr;
    std::span<const Message> messages;
    std::uint64_t since = 0;
    bool once_more = false;
    Clock::time_point deadline;
  };
  struct Gone {
    std::uint64_t since = 0;
    std::uint64_t grace = 0;
  };

  void run();
  void check_peers();
  void check_connections();
  bool is_in_vain(const Wait& wait) const;
  bool ought_to_wait_for_another(const Wait& wait) const;
  void interrupt();
  bool all_wait_long() const;

  const std::shared_ptr<NodeGroup> node_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t polls_ = 0;
  std::map<const void*, Wait> waits_;
  std::map<int, Gone> gone_;  // by rank
  std::map<int, std::unique_ptr<gloo::transport::UnboundBuffer>> canaries_;
  std::byte canary_memory_{};
  bool aborted_ = false;
  bool parked_ = false;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace ddp::internal

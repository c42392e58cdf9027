// GlooWatch: looks after the peers of threads that wait for Gloo's messages, and ends waits that are in vain.
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

// What a peer has sent before it went may have arrived, or be on its way. So a thread that waits for another one's
// message is first sent to wait for that; only there its wait is in vain, some looks later. Thread-safe.
class GlooWatch {
 public:
  struct Message {
    std::unique_ptr<gloo::transport::UnboundBuffer> memory;
    int peer = 0;
    bool is_outgoing = false;
  };

  // `node`: the ranks of this node, whose processes are looked after; null: none.
  explicit GlooWatch(std::shared_ptr<NodeGroup> node);
  ~GlooWatch();
  GlooWatch(const GlooWatch&) = delete;
  GlooWatch& operator=(const GlooWatch&) = delete;

  // Of the other ranks the connections are looked after, from here on, until they are left.
  void look_at_connections(gloo::Context& connections);
  void leave_connections();

  using Clock = std::chrono::steady_clock;
  enum class End : std::uint8_t {
    arrived,
    again,    // the caller begins again
    in_vain,  // the peer is gone
    late,     // the deadline has passed
  };

  // Which of the messages the caller is to wait for now; they stay where they are until end_wait(). `owner` tells
  // callers apart. `once_more`: the wait before was in vain; this one is so at the next look. Throws `aborted`.
  const Message& begin_wait(const void* owner, std::span<const Message> messages, bool once_more,
                            Clock::time_point deadline);
  // `arrived`: the message has. Throws `aborted`.
  End end_wait(const void* owner, bool arrived);
  void forget(const void* owner);

  // Ends all waits, now and later.
  void abort();
  bool aborted() const;
  [[noreturn]] static void throw_aborted();

  // A peer of this node that is gone, if there is one: one that ended without a word before one that failed, which
  // may have been because of it.
  struct Lost {
    int rank = 0;
    bool failed = false;
  };
  std::optional<Lost> lost() const;

 private:
  // Times are counted in looks: in those Gloo's thread ran as well, if this one did.
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
  void look_after_peers();
  void look_after_connections();
  bool is_in_vain(const Wait& wait) const;
  bool ought_to_wait_for_another(const Wait& wait) const;
  void interrupt();
  bool all_wait_long() const;

  const std::shared_ptr<NodeGroup> node_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t looks_ = 0;
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

// Limits of the runtime. What a program can choose (time-outs, bucket sizes) has its default in the public headers.
// docs/development/limits.md says what happens when one is reached.
#pragma once

#include <chrono>
#include <cstddef>

namespace ddp::limits {

using namespace std::chrono_literals;

// Ranks of one node: the staging buffers of each (four of them), and what may be under way between two ranks.
inline constexpr std::size_t kNodeStageBytes = std::size_t{512} << 10;
inline constexpr std::size_t kNodeChannelsBytes = std::size_t{1} << 20;  // of one rank to all others …
inline constexpr std::size_t kNodeChannelLeast = std::size_t{4} << 10;   // … but for each no less
inline constexpr std::size_t kNodeChannelMost = std::size_t{128} << 10;  // and no more
// Between two looks whether a peer is gone, while a thread waits for it, and once it has waited for long: a thread that
// waits for hours is to cost no processor, by which its rank would look as if it worked.
inline constexpr auto kNodeLook = 5ms;
inline constexpr auto kNodeLateLook = 50ms;
inline constexpr auto kLongWait = 1s;
inline constexpr auto kGlooLook = 3ms;  // the same, of Gloo's messages
inline constexpr auto kGlooLateLook = 50ms;
inline constexpr auto kGlooTimeoutDelay = 1s;  // Gloo's own time-out comes so long after ours
inline constexpr auto kLostLook = 20ms;        // for the rank that a broken connection is the fault of
inline constexpr auto kLostAnswer = 1s;        // for the store to say it; it may be what was lost
inline constexpr auto kMeetingLook = 20ms;     // whether the members of a new group still run, doubled up to
inline constexpr auto kMeetingLongestLook = 500ms;
inline constexpr auto kSegmentWait = 1s;  // for shared memory that a peer has named
// A group's thread, in a program that waits for its operations at once: how soon that is, how often the thread looks
// whether one is left alone, and how often in vain before it sleeps.
inline constexpr auto kPromptWait = 200us;
inline constexpr auto kQueueLook = 2ms;
inline constexpr int kQueueIdleLooks = 50;
inline constexpr auto kUnwindingWait = 1s;  // for a collective under way when an exception ends its group
// nccl: how often the host looks whether a peer is gone while it waits, how long what a peer had given may still be
// under way then (one that left in order / that died), and a copy of a GPU's memory.
inline constexpr auto kPeerLook = 2ms;
inline constexpr auto kStoreLook = 2ms;
inline constexpr auto kLeftPeerGrace = 500ms;
inline constexpr auto kLostPeerGrace = 5ms;
inline constexpr auto kDeviceCopy = 60s;
inline constexpr auto kDeviceCopySpin = 5ms;
inline constexpr auto kConnecting = 10min;  // the ranks of a group, and operations, by default
inline constexpr auto kStoreCall = 5min;
inline constexpr auto kNoTimeout = std::chrono::hours(24 * 365);  // of operations, where the launcher watches
inline constexpr auto kBackendTrial = 60s;  // the first collective of all ranks, when they connect
inline constexpr std::size_t kCheckpointHeaderBytes = 100'000'000;  // safetensors' own limit

}  // namespace ddp::limits

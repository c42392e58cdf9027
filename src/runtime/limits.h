// These are the limits of the runtime. Limits that a program can choose (timeouts, bucket sizes) have their defaults in
// the public headers. docs/development/limits.md describes the effect of each limit.
#pragma once

#include <chrono>
#include <cstddef>

namespace ddp::limits {

using namespace std::chrono_literals;

// These limits are for ranks of one node: the size of each of a rank's four staging buffers, and the sizes of the
// channels between two ranks.
inline constexpr std::size_t kNodeStageBytes = std::size_t{512} << 10;
inline constexpr std::size_t kNodeChannelsBytes = std::size_t{1} << 20;  // bytes of one rank's channels to all others
inline constexpr std::size_t kNodeChannelLeast = std::size_t{4} << 10;   // minimum bytes of one channel
inline constexpr std::size_t kNodeChannelMost = std::size_t{128} << 10;  // maximum bytes of one channel
// While a thread waits, it checks this often whether a peer is gone, and less often once it has waited for long. A
// thread that waits for hours must not use the processor, because its rank would then seem to work.
inline constexpr auto kNodePoll = 5ms;
inline constexpr auto kNodeLatePoll = 50ms;
inline constexpr auto kLongWait = 1s;
inline constexpr auto kGlooPoll = 3ms;  // like kNodePoll, for Gloo's messages
inline constexpr auto kGlooLatePoll = 50ms;
inline constexpr auto kGlooTimeoutDelay = 1s;  // Gloo's own timeout comes this long after the runtime's
inline constexpr auto kLostRankWait = 20ms;    // wait for the rank that caused a broken connection
inline constexpr auto kLostAnswer = 1s;        // wait for the store's answer; the store itself may be lost
inline constexpr auto kMeetingPoll = 20ms;     // first interval to check a new group's members; it doubles
inline constexpr auto kMeetingLongestPoll = 500ms;
inline constexpr auto kSegmentWait = 1s;  // wait for shared memory that a peer has named
// These limits are for a group's thread, if the program waits for its operations within kPromptWait. The thread checks
// every kQueuePoll whether an operation is left alone. After kQueueIdlePolls checks in vain, it sleeps.
inline constexpr auto kPromptWait = 200us;
inline constexpr auto kQueuePoll = 2ms;
inline constexpr int kQueueIdlePolls = 50;
inline constexpr auto kInPlaceWait = 10s;   // wait of a rank that has failed until other processes leave its memory
inline constexpr auto kUnwindingWait = 1s;  // wait for an operation when an exception passes its Work
// These limits are for nccl. They say how often a waiting host checks whether a peer is gone. They also say how long
// the data of a lost peer may still be under way, if it left in order or if it died. kDeviceCopy limits a copy of a
// GPU's memory.
inline constexpr auto kPeerPoll = 2ms;
inline constexpr auto kStorePoll = 2ms;
inline constexpr auto kLeftPeerGrace = 500ms;
inline constexpr auto kLostPeerGrace = 5ms;
inline constexpr auto kDeviceCopy = 60s;
inline constexpr auto kDeviceCopySpin = 5ms;
// exit() waits so long for calls of NCCL on other threads, if they may wait for other ranks, and if they do not.
inline constexpr auto kNcclCommonExitWait = 100ms;
inline constexpr auto kNcclLocalExitWait = 1s;
inline constexpr auto kLaunchOrder = 1s;    // wait for another thread's launch on the same GPU
inline constexpr auto kConnecting = 10min;  // default limit for connecting a group's ranks, and for operations
inline constexpr auto kStoreCall = 5min;
inline constexpr auto kNoTimeout = std::chrono::hours(24 * 365);  // limit for operations if the launcher watches
inline constexpr auto kBackendTrial = 60s;  // limit for the first collective when the ranks connect
// Processes that a killed worker had forked, such as PyTorch's data loaders, notice its end only after 5 s.
inline constexpr auto kDirectoryLockWait = 10s;
// These limits are for states in the launcher's memory. A program tries to keep its state for a shorter time than the
// launcher waits.
inline constexpr auto kStatePatience = 25s;
inline constexpr auto kChangePatience = 1s;       // before an abort, for a program that has begun to change its state
inline constexpr std::size_t kGpuStepsAhead = 2;  // steps that a GPU has not finished
inline constexpr std::size_t kGpuStateBlock = std::size_t{32} << 20;      // a pinned block, of which there are two
inline constexpr std::size_t kGpuStateHostBytes = std::size_t{1} << 20;   // of the tensors in host memory
inline constexpr std::uint64_t kOwnStateBytes = std::uint64_t{64} << 20;  // of what a rank has of its own
inline constexpr std::uint64_t kStateChunk = std::uint64_t{64} << 20;     // bytes of a message between nodes
inline constexpr std::size_t kCheckpointHeaderBytes = 100'000'000;        // safetensors' own limit; also for a manifest

}  // namespace ddp::limits

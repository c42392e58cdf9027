// Limits of the launcher. docs/development/limits.md says what happens when one is reached.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace ddp::limits {

using namespace std::chrono_literals;

inline constexpr int kWorkersPerNode = 4096;
inline constexpr std::size_t kWorkerDescriptors = 65'536;  // soft limit of a worker, as far as the hard one allows
inline constexpr std::size_t kFewDescriptors = 4096;       // a hard limit below this is worth a warning
inline constexpr std::uint64_t kJobDescriptors = 32;       // of the launcher, apart from its workers
inline constexpr std::uint64_t kDescriptorsPerWorker = 8;  // of the launcher
inline constexpr int kOomScoreRaise = 100;                 // workers go before the launcher
inline constexpr auto kDefaultGrace = 5s;                  // SIGTERM to SIGKILL
inline constexpr auto kExitNote = 1min;                    // after a rank ended with 0, if others run
// What is said of launchers that do not belong to a job: bytes of a name and of a reason, differences in one line,
// lines per address, and addresses.
inline constexpr std::size_t kShownName = 80;
inline constexpr std::size_t kShownReason = 500;
inline constexpr std::size_t kRemarks = 8;
inline constexpr int kLinesPerStranger = 5;
inline constexpr std::size_t kShownStrangers = 64;
// Hangs: how often pages are looked at, and processes with them; what of a sample after a long pause counts; how many
// calls of a group must be done before its pauses are learnt from.
inline constexpr auto kHangSampleInterval = 50ms;
inline constexpr auto kTorchLook = 1s;          // for the first worker whose PyTorch can be asked
inline constexpr auto kStackRest = 5s;          // of a first thread, after which its stack may be looked at
inline constexpr auto kLatestSample = 5s;       // of what a reader writes to a page: what is older is not believed
inline constexpr auto kHangSampleShare = 50us;  // of the coordinator, for each rank of the job
inline constexpr auto kHangRemembered = 5s;     // what was seen of ranks that have given up since
inline constexpr auto kHangEvidence = 1s;
inline constexpr auto kHangLongestInterval = 250ms;
inline constexpr auto kActivityTime = 50ms;  // of a sample of what processes do
inline constexpr auto kHangActivity = 2s;    // of a wait, after which it is measured what processes do
inline constexpr std::uint64_t kHangWarmCalls = 8;
// When a job is terminated: for calls that differ; without any sign of life of the rank that is waited for; with
// --hang-limit=learnt at least after so long, and after so many times the longest pause of the job.
inline constexpr auto kHangConclusive = 1s;
inline constexpr auto kPollingPause = 5s;  // between two questions whether an operation is done
inline constexpr int kHangProof = 4;       // samples in a row, a second apart, of ranks that wait for each other
inline constexpr auto kHangFloor = 30s;
inline constexpr int kHangFactor = 20;
// When a stall is reported: at least after so long, and at most, if pauses were learnt; if not; if nobody waits in a
// collective. When the report is a warning: after so long without a sign of life, and after so long in any case.
inline constexpr auto kHangFirstWord = 5s;
inline constexpr auto kHangLastWord = 30s;
inline constexpr auto kHangFirstWordCold = 15s;
inline constexpr auto kHangFirstWordSilent = 150s;
inline constexpr auto kHangNotice = 2s;  // from the report to the end, where the limit was over before
inline constexpr auto kHangStillWarning = 1min;
inline constexpr auto kHangLongWarning = 10min;
// Stacks of all ranks: all of it; how long tools, and NCCL and PyTorch, may take, and how long a signal's handler; how
// often the answers are looked at; tools at a time.
inline constexpr auto kStackTime = 5s;
inline constexpr auto kShownEvidenceTime = 6s;                           // until that of other nodes is there …
inline constexpr std::size_t kShownEvidence = std::size_t{4} << 20;      // … how much one sends at most …
inline constexpr std::size_t kAllShownEvidence = std::size_t{64} << 20;  // … and all of them: the coordinator keeps it
inline constexpr auto kStackCopyTime = 1s;  // until the stacks of processes that go on are copied
inline constexpr auto kStackToolTime = 4s;
inline constexpr auto kStackAnswerTime = 3s;
inline constexpr auto kStackPoll = 5ms;
inline constexpr int kStackTools = 16;
// Jobs on several nodes: how often launchers say that they live, and after how long without it one is lost; when, and
// then how often, those that wait are told who is missing.
inline constexpr auto kNodeHeartbeat = 1s;
inline constexpr auto kDefaultNodeTimeout = 10s;
inline constexpr auto kNodeFirstWord = 3s;
inline constexpr auto kNodeNextWord = 30s;
inline constexpr auto kDefaultJoinTimeout = 10min;
inline constexpr auto kDefaultLastCall = 30s;
inline constexpr std::size_t kPrintedAtOnce = std::size_t{32} << 10;    // of gathered output, in a message …
inline constexpr std::size_t kGatheredUnshown = std::size_t{64} << 20;  // … of all nodes, while the console is full …
inline constexpr std::size_t kPrintedUnsent = std::size_t{256} << 10;  // … and what may wait to be sent
// A host that is lost again and again: how long it is kept out at first, at most, and after how long it is forgotten.
inline constexpr auto kFlapDelay = 30s;
inline constexpr auto kLongestFlapDelay = 10min;
inline constexpr auto kFlapMemory = 1h;
inline constexpr auto kClockDifference = 2s;  // that is told
// How often a node shows what is new in its ranks, and by how much more for each node of the job: the coordinator reads
// it all.
inline constexpr auto kNodeShow = 100ms;
inline constexpr auto kNodeShowShare = 500us;
// Launchers that are started over ssh: when one says which hosts have not answered, how long their launch
// request may be, and how long an ssh may take to end after SIGTERM.
inline constexpr auto kHostFirstWord = 10s;
inline constexpr std::size_t kLaunchRequestBytes = std::size_t{8} << 20;
inline constexpr auto kHelperEnd = 2s;
inline constexpr int kHostEarlyLines = 200;  // of a host before its launcher is there (banners, errors of ssh) …
inline constexpr std::size_t kHostEarlyBytes = std::size_t{64} << 10;  // … that are shown
inline constexpr auto kNodeConnectPause = 500ms;                       // between two tries to reach the coordinator
inline constexpr auto kRestartDelay = 250ms;  // doubled by each attempt in a row that made no progress …
inline constexpr auto kLongestRestartDelay = 30s;
// … which is one that failed before a step, or within this time if the program is without the runtime.
inline constexpr auto kProgressTime = 10s;
inline constexpr std::uint64_t kOperationsOfProgress = 1000;  // of a group: as good as a step
inline constexpr int kAttemptsWithoutProgress = 6;
inline constexpr auto kUnkillableWait = 5s;     // SIGKILL to "cannot be killed"
inline constexpr auto kLeftoverMoment = 200ms;  // for processes that end when the workers have
inline constexpr auto kLeftoverLook = 10ms;
inline constexpr auto kSaveFileLook = 1s;       // --save-file is looked for so often
inline constexpr auto kSaveCommandPause = 5s;   // between two runs of --save-command
inline constexpr auto kSaveCommandTime = 30s;   // of one run
inline constexpr auto kSecondRequest = 500ms;   // a signal that comes later than this while ending kills at once
inline constexpr auto kCgroupPatience = 100ms;  // for the job's cgroup, while another launcher removes leftovers
inline constexpr auto kGroupPoll = 10ms;        // is the group of an ended leader empty?
inline constexpr auto kHeldByTracer = 1s;       // a dead worker that a debugger still has, until it counts as ended
inline constexpr auto kConsoleWait = 100ms;     // for a console that does not take a line, before the line is dropped
inline constexpr auto kConsoleLook = 50ms;      // does it take something again?
inline constexpr auto kLastWordsWait = 30s;     // for a console that does not take why the job has ended
inline constexpr auto kSecondaryWait = 2s;      // for the rank that a failed one lost to say why, or to end
inline constexpr auto kNamedPeerWait = 10s;     // the same, if the failed one has said which rank it lost
inline constexpr auto kSettleTime = 500ms;      // for ranks that differ, and for a signal that a scheduler sends to all
inline constexpr auto kQuietEnding = 1s;        // longer than this and the console says what it waits for
inline constexpr auto kLeftoverWait = 2s;       // for descendants that outlive their worker
inline constexpr auto kCollapseWindow = 200ms;  // the same line of several ranks within this is shown once

// What ddplaunch store --inspect prints for people.
inline constexpr std::size_t kInspectedWaits = 20;    // different waits
inline constexpr std::size_t kInspectedAwaited = 3;   // keys of one of them
inline constexpr std::size_t kInspectedClients = 20;  // of one list
inline constexpr std::size_t kInspectedKeys = 50;
inline constexpr std::size_t kInspectedBytes = 120;  // of a key or a name
inline constexpr auto kInspectTime = 30s;            // for a server that is very busy

// The workers' output on its way to the console and to files.
inline constexpr std::size_t kLineBytes = std::size_t{64} << 10;         // a longer line goes to the console in parts
inline constexpr std::size_t kOutputTurnBytes = std::size_t{256} << 10;  // one stream's share of a turn of the loop
inline constexpr std::size_t kPipeBytes = std::size_t{1} << 20;          // one worker's pipe
inline constexpr std::size_t kPipesBytes = std::size_t{16} << 20;        // all of them; the kernel gives a user 64 MiB
inline constexpr std::size_t kCollapseLines = 32'768;                    // that wait for other ranks to say the same
inline constexpr std::size_t kCollapseBytes = std::size_t{2} << 20;
inline constexpr int kCollapseLooks = 16;    // at lines of the same hash, before a line counts as new
inline constexpr auto kPartialLine = 500ms;  // an unfinished line (a prompt) is shown after this
inline constexpr std::size_t kConsoleBacklog = std::size_t{16} << 20;
inline constexpr std::size_t kLosslessBacklog = std::size_t{1} << 20;
inline constexpr auto kConsoleStall = 1s;     // a full backlog keeps the workers waiting for no longer than this
inline constexpr auto kConsoleGoodbye = 10s;  // for a slow console at the end of the job
inline constexpr auto kDrainQuiet = 200ms;    // after the workers' death, no more output within this is the end of it
inline constexpr auto kDrain = 2s;            // the same, for one that never falls quiet
inline constexpr int kLastLines = 20;         // of a failed worker, shown again
inline constexpr std::size_t kLastLineBytes = 500;
inline constexpr std::size_t kTailBytes = std::size_t{16} << 10;   // kept of each stream for those lines
inline constexpr std::size_t kTailsBytes = std::size_t{16} << 20;  // of all streams together
inline constexpr std::size_t kErrorFileBytes = std::size_t{1} << 20;

}  // namespace ddp::limits

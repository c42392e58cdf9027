// Defines the limits of the launcher. docs/development/limits.md says what happens when one is reached.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace ddp::limits {

using namespace std::chrono_literals;

inline constexpr int kWorkersPerNode = 4096;
inline constexpr std::size_t kWorkerDescriptors = 65'536;  // soft limit of a worker, as far as the hard one allows
inline constexpr std::size_t kFewDescriptors = 4096;       // a hard limit below this is worth a warning
inline constexpr std::uint64_t kJobDescriptors = 32;       // descriptors of the launcher, apart from its workers
inline constexpr std::uint64_t kDescriptorsPerWorker = 8;  // descriptors of the launcher
inline constexpr int kOomScoreRaise = 100;                 // the kernel kills workers before the launcher
inline constexpr auto kDefaultGrace = 5s;                  // time from SIGTERM to SIGKILL
inline constexpr auto kExitNote = 1min;  // time until a note, if ranks run after another exited with 0
// These limits are for ranks that wait for others in the store.
inline constexpr auto kStoreWaitNote = 30s;  // a wait of this time is reported
inline constexpr auto kStoreWaitPoll = 5s;   // time between two polls; shorter waits are not seen
inline constexpr auto kStoreWaitGap = 12s;   // a wait that begins again after this time is another one
inline constexpr int kStoreWaitReports = 5;  // most reports of an attempt
// These limits are for log lines about launchers that do not belong to the job.
inline constexpr std::size_t kShownName = 80;       // most bytes of a name
inline constexpr std::size_t kShownReason = 500;    // most bytes of a reason
inline constexpr std::size_t kRemarks = 8;          // most differences in one line
inline constexpr int kLinesPerAddress = 5;          // most lines per address
inline constexpr std::size_t kShownAddresses = 64;  // most addresses
// These limits are for the detection of hangs.
inline constexpr auto kHangSampleInterval = 50ms;    // time between two samples of status pages
inline constexpr auto kTorchPoll = 1s;               // time between two checks of PyTorch workers
inline constexpr auto kCrashWait = 5s;               // most wait of a worker that crashes for a reader that is stuck
inline constexpr auto kStackRest = 5s;               // rest of a first thread before its stack is read
inline constexpr auto kStackRead = 3s;               // most delay of a report until that stack is read
inline constexpr auto kLatestSample = 5s;            // older samples of a reader are not used
inline constexpr auto kHangSampleShare = 50us;       // coordinator's sample interval, per rank of the job
inline constexpr auto kHangRemembered = 5s;          // how long samples of ranks that have given up are kept
inline constexpr auto kHangEvidence = 1s;            // time between two samples of processes
inline constexpr auto kHangLongestInterval = 250ms;  // most time that one sample counts for
inline constexpr auto kActivityTime = 50ms;          // time for one sample of the activity of processes
inline constexpr auto kUsageInterval = 900ms;        // least time between two measurements of a rank for the views
inline constexpr auto kUsageSearch = 10s;            // time between two searches for a rank's processes for the views
inline constexpr auto kUsageTime = 5ms;              // time for one measurement of ranks for the views
inline constexpr auto kUsageAsked = 1s;              // time between two questions to other nodes for the views
inline constexpr auto kHangActivity = 2s;            // wait before the activity is measured
inline constexpr std::uint64_t kHangWarmCalls = 8;   // calls of a group before its pauses are learnt
// These limits decide when a hang terminates the job.
inline constexpr auto kHangConclusive = 1s;  // delay after calls that differ
inline constexpr auto kPollingPause = 5s;    // most time between two queries whether an operation is done
inline constexpr auto kBlamed = 5s;          // a rank is blamed for at least this long before it is given up
inline constexpr auto kBlameGap = 3s;        // after this time without blame, it begins again
inline constexpr int kHangProof = 4;         // samples in a row, a second apart, of ranks that wait for each other
inline constexpr auto kHangFloor = 30s;      // least limit with --hang-limit=learnt
inline constexpr int kHangFactor = 20;       // multiple of the longest pause with --hang-limit=learnt
// These limits decide when a stall is reported, and when the report is a warning.
inline constexpr auto kHangFirstWord = 5s;          // least delay, if pauses were learnt
inline constexpr auto kHangLastWord = 30s;          // longest delay, if pauses were learnt
inline constexpr auto kHangFirstWordCold = 15s;     // delay if no pauses were learnt
inline constexpr auto kHangFirstWordSilent = 150s;  // delay if no rank waits in a collective
inline constexpr auto kHangNotice = 2s;             // time from the report to the end, if the limit was already over
inline constexpr auto kHangStillWarning = 1min;     // warning after this time without a sign of life
inline constexpr auto kHangLongLimit = 30s;         // a limit of at least this gets a warning halfway
inline constexpr auto kHangLongWarning = 10min;     // warning after this time in any case
// These limits are for the records of the ranks.
inline constexpr auto kRecordPatience = 1s;         // wait for a record that the worker has claimed and not written
inline constexpr auto kRecordAsk = 500ms;           // time between two requests for the records of other nodes
inline constexpr auto kRecordAskShare = 1ms;        // added per node
inline constexpr auto kRecordKeep = 10s;            // how long a node keeps records for which nothing asks
inline constexpr auto kRecordsLastWait = 300ms;     // wait for the last records of other nodes
inline constexpr auto kUnknownClockError = 10ms;    // how wrong a clock may be that was not measured
inline constexpr std::size_t kClockSamples = 32;    // latest measurements of another clock
inline constexpr std::uint64_t kClockDrift = 50;    // most drift between two clocks, in millionths
inline constexpr std::size_t kShownRecords = 4096;  // most records in one message
inline constexpr std::size_t kUnsentRecords = std::size_t{128} << 10;  // most records of a node that wait to be sent
// These limits are for the trace.
inline constexpr std::uint64_t kTraceBytes = std::uint64_t{2} << 30;  // size at which a trace ends
inline constexpr std::size_t kTraceBuffer = std::size_t{1} << 20;     // text that is written at once
inline constexpr auto kTraceFlush = 1s;                               // time between two writes, if there is less
inline constexpr std::size_t kTraceSpans = 32;                        // spans of a row that others may cross
inline constexpr auto kTraceHeld = 10s;                               // wait until all ranks have recorded a collective
inline constexpr std::size_t kTraceHeldArrivals = std::size_t{1} << 20;  // most arrivals that are kept meanwhile
inline constexpr auto kTraceLeastWait = 50us;                            // shorter waits for the last rank get no arrow
inline constexpr std::size_t kTraceArrows = 64;                          // most arrows of a collective
inline constexpr std::uint64_t kTraceOpenCalls = 4;  // most unfinished collectives that are shown per group
// These limits are for collecting the stacks of all ranks, and other evidence.
inline constexpr auto kStackTime = 5s;                                   // time limit of the whole collection
inline constexpr auto kShownEvidenceTime = 6s;                           // wait for the evidence of other nodes
inline constexpr std::size_t kShownEvidence = std::size_t{4} << 20;      // most bytes that one node sends
inline constexpr std::size_t kAllShownEvidence = std::size_t{64} << 20;  // most bytes that the coordinator keeps
inline constexpr auto kStackCopyTime = 1s;    // time limit for copying the stacks of running processes
inline constexpr auto kStackToolTime = 4s;    // time limit of tools, NCCL and PyTorch
inline constexpr auto kStackAnswerTime = 3s;  // time limit of signal handlers
inline constexpr auto kStackPoll = 5ms;       // time between two checks for answers
inline constexpr int kStackTools = 16;        // most tools at a time
// These limits are for jobs on several nodes.
inline constexpr auto kNodeHeartbeat = 1s;          // time between two heartbeats
inline constexpr auto kDefaultNodeTimeout = 10s;    // silence after which a node is lost
inline constexpr auto kNodeFirstWord = 3s;          // time until missing nodes are first reported
inline constexpr auto kNodeNextWord = 30s;          // time between two later reports
inline constexpr auto kDefaultJoinTimeout = 10min;  // wait for the least number of nodes
inline constexpr auto kDefaultLastCall = 30s;       // wait for more nodes
inline constexpr auto kCheckedLastCall = 1000ms;    // the same, if all that --check has seen are there
inline constexpr std::size_t kPrintedAtOnce = std::size_t{32} << 10;    // most gathered output in one message
inline constexpr std::size_t kGatheredUnshown = std::size_t{64} << 20;  // most gathered output not yet shown
inline constexpr std::size_t kPrintedUnsent = std::size_t{256} << 10;   // most gathered output that waits to be sent
inline constexpr auto kFlapDelay = 30s;                                 // first quarantine of a host
inline constexpr auto kLongestFlapDelay = 10min;                        // longest quarantine
inline constexpr auto kFlapMemory = 1h;                                 // time after which a loss is forgotten
inline constexpr auto kClockDifference = 2s;                            // least difference that is reported
inline constexpr auto kNodeShow = 100ms;       // time between two reports of a node on its ranks
inline constexpr auto kNodeShowShare = 500us;  // added per node, as the coordinator reads all reports
// These limits are for launchers that are started over ssh.
inline constexpr auto kHostFirstWord = 10s;                               // time until missing hosts are reported
inline constexpr std::size_t kLaunchRequestBytes = std::size_t{8} << 20;  // longest launch request
inline constexpr auto kForkTime = 5s;                                  // until a worker is forked; then it is started
inline constexpr auto kPreloadPoll = 1s;                               // between two checks whether it was stopped
inline constexpr auto kPreloadTime = 5min;                             // for the import before the workers are forked
inline constexpr auto kHelperEnd = 2s;                                 // time from SIGTERM to SIGKILL for ssh
inline constexpr int kHostEarlyLines = 200;                            // most lines shown before the launcher starts
inline constexpr std::size_t kHostEarlyBytes = std::size_t{64} << 10;  // most bytes of these lines
inline constexpr std::size_t kSuccessors = 8;     // nodes that may lead the job after the first one
inline constexpr auto kSuccessionWait = 2s;       // wait of a new first node for those that it does not need
inline constexpr int kSuccessionBacklog = 4096;   // nodes that may wait until one leads the job
inline constexpr auto kDeathProof = 3s;           // time in which the launcher of a lost first node must be seen to end
inline constexpr auto kElectionPoll = 20ms;       // between two checks of the votes
inline constexpr auto kClaimPause = 100ms;        // until a claim that has failed is repeated
inline constexpr auto kElectorateNews = 100us;    // per node, until all know that one is gone
inline constexpr auto kDeathPoll = 50ms;          // between two polls
inline constexpr auto kNodeConnectPause = 500ms;  // time between two attempts to reach the coordinator
// These limits are for restarts and for the end of a job.
// How long the workers may take to keep their state after a failure, before they are terminated.
inline constexpr auto kStateTime = 30s;
inline constexpr auto kStatePoll = 1ms;        // between checks whether they have done so
inline constexpr auto kStateRoomPoll = 250ms;  // between checks of images, and of the memory that is left for them
// These are for what is written to --image-dir.
inline constexpr int kImages = 2;                                      // complete ones that are kept there
inline constexpr std::uint64_t kImagePiece = std::uint64_t{16} << 20;  // bytes that are written at a time
inline constexpr auto kImagePause = 2s;                                // longest pause between two pieces
inline constexpr int kImagesInVain = 3;      // that do not become complete, before the user is warned
inline constexpr auto kImageListPause = 1s;  // between two reads of the directory
inline constexpr auto kImageList = 5s;       // after which the user is informed that a job waits for its first read
inline constexpr auto kImagePoll = 50ms;     // between two checks whether the last image of a job is written
inline constexpr auto kImageWord = 1s;       // after which the user is informed that the launcher waits for it
inline constexpr int kStateWorkers = 256;    // of a node, else it keeps no states: a message lists the states of all
inline constexpr std::size_t kStateTransfers = 2000;                      // before an attempt; else it begins without
inline constexpr std::uint64_t kOwnStateBytes = std::uint64_t{64} << 20;  // of what a rank has of its own
inline constexpr auto kRestartDelay = 100ms;  // tripled by each attempt in a row without progress
inline constexpr auto kLongestRestartDelay = 30s;
// An attempt makes no progress if it fails before a step. If the program does not use the runtime, it makes none if
// it fails within this time.
inline constexpr auto kProgressTime = 10s;
inline constexpr std::uint64_t kOperationsOfProgress = 1000;  // operations of a group that count as a step
inline constexpr int kAttemptsWithoutProgress = 6;            // attempts in a row after which the job is given up
inline constexpr auto kUnkillableWait = 5s;                   // time from SIGKILL to "cannot be killed"
inline constexpr auto kLeftoverMoment = 200ms;                // wait for processes that end after the workers
inline constexpr auto kLeftoverPoll = 10ms;                   // time between two checks for them
inline constexpr auto kSaveFilePoll = 1s;                     // time between two checks for --save-file
inline constexpr auto kSaveCommandPause = 5s;                 // time between two runs of --save-command
inline constexpr auto kSaveCommandTime = 30s;                 // time limit of one run of --save-command
inline constexpr auto kSecondRequest = 500ms;                 // signals that are closer together are one request
inline constexpr auto kCgroupPatience = 100ms;  // wait for the job's cgroup, while another launcher removes leftovers
inline constexpr auto kGroupPoll = 10ms;        // time between two checks whether a process group is empty
inline constexpr auto kHeldByTracer = 1s;       // time until a dead worker that a debugger holds counts as ended
inline constexpr auto kConsoleWait = 100ms;     // wait for the console before a line is dropped
inline constexpr auto kConsolePoll = 50ms;      // time between two checks whether the console accepts a line
inline constexpr auto kLastWordsWait = 30s;     // wait for the console to accept why the job has ended
inline constexpr auto kSecondaryWait = 2s;      // wait until a lost rank reports the reason, or ends
inline constexpr auto kNamedPeerWait = 10s;     // wait for a lost rank that the failed rank has named
inline constexpr auto kSettleTime = 500ms;      // wait for ranks that differ, and for signals of schedulers
inline constexpr auto kQuietEnding = 1s;        // time until the console shows what the launcher waits for
inline constexpr auto kLeftoverWait = 2s;       // wait for descendants that outlive their worker
inline constexpr auto kCollapseWindow = 200ms;  // identical lines of several ranks within this time are shown once

// These limits are for the text that ddplaunch store --inspect prints.
inline constexpr std::size_t kInspectedWaits = 20;    // most groups of waiting clients
inline constexpr std::size_t kInspectedAwaited = 3;   // most keys per group
inline constexpr std::size_t kInspectedClients = 20;  // most clients per list
inline constexpr std::size_t kInspectedKeys = 50;     // most keys
inline constexpr std::size_t kInspectedBytes = 120;   // most bytes of a key or a name
inline constexpr auto kInspectTime = 30s;             // longest wait for a very busy server

// These limits are for views of the job in other processes (ddplaunch top).
inline constexpr std::size_t kViewRanks = 65'536;                         // most ranks of a snapshot
inline constexpr int kViewClients = 8;                                    // most clients at a time
inline constexpr std::size_t kViewRequestBytes = 4096;                    // longest request
inline constexpr std::size_t kViewAnswerBytes = std::size_t{64} << 20;    // longest answer
inline constexpr std::size_t kViewOutputUnsent = std::size_t{256} << 10;  // output of a rank that waits for a client
inline constexpr auto kViewPatience = 10s;                                // a client that reads nothing is dropped
inline constexpr auto kViewSnapshotAge = 100ms;                           // clients share a snapshot for this time
inline constexpr auto kViewUsageTime = 2500ms;                            // wait of top --once for what ranks use
inline constexpr auto kViewConnectTime = 2s;                              // wait of top for a launcher's first answer
inline constexpr std::size_t kTopLines = 2000;                            // most lines of stacks or output in top

// These limits are for the workers' output on its way to the console and to files.
inline constexpr std::size_t kLineBytes = std::size_t{64} << 10;         // a longer line goes to the console in parts
inline constexpr std::size_t kOutputTurnBytes = std::size_t{256} << 10;  // one stream's share of a turn of the loop
inline constexpr std::size_t kPipeBytes = std::size_t{1} << 20;          // size of one worker's pipe
inline constexpr std::size_t kPipesBytes = std::size_t{16} << 20;  // size of all pipes; the kernel gives a user 64 MiB
inline constexpr std::size_t kCollapseLines = 32'768;              // most lines that wait for other ranks
inline constexpr std::size_t kCollapseBytes = std::size_t{2} << 20;  // most bytes of these lines
inline constexpr int kCollapseComparisons = 16;                      // most lines of the same hash that are compared
inline constexpr auto kPartialLine = 500ms;  // an unfinished line (a prompt) is shown after this
inline constexpr std::size_t kConsoleBacklog = std::size_t{16} << 20;
inline constexpr std::size_t kLosslessBacklog = std::size_t{1} << 20;
inline constexpr auto kConsoleStall = 1s;           // a full backlog blocks the workers for at most this time
inline constexpr auto kConsoleGoodbye = 10s;        // wait for a slow console at the end of the job
inline constexpr auto kDrainQuiet = 200ms;          // silence that ends the output after the workers' death
inline constexpr auto kDrain = 2s;                  // longest wait for that silence
inline constexpr auto kGpuUsersTime = 2s;           // time to find the users of a GPU without free memory
inline constexpr int kLastLines = 20;               // number of last lines of a failed worker that are shown again
inline constexpr std::size_t kLastLineBytes = 500;  // most bytes of one of these lines
inline constexpr std::size_t kTailBytes = std::size_t{16} << 10;   // bytes that are kept of each stream for these lines
inline constexpr std::size_t kTailsBytes = std::size_t{16} << 20;  // bytes that are kept of all streams together
inline constexpr std::size_t kErrorFileBytes = std::size_t{1} << 20;  // most bytes that are read of an error file

// These limits are for the lines that stay below the output on a terminal.
inline constexpr auto kStopAnswer = 1s;                  // after Ctrl-Z, wait until the workers are stopped
inline constexpr auto kFooterPause = 100ms;              // least time between two drawings of the footer
inline constexpr std::size_t kFooterLines = 512;         // most lines of the footer
inline constexpr std::size_t kFooterLineBytes = 16'384;  // most bytes of a line of the footer

}  // namespace ddp::limits

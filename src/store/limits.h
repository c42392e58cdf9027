// These are the limits of the store. docs/development/limits.md says what happens when one is reached.
#pragma once

#include <chrono>
#include <cstddef>

namespace ddp::limits {

using namespace std::chrono_literals;

// The next constants are limits of the server. Those up to kStoreConnections and those of wire/limits.h are the
// defaults of store/server/store_limits.h, which --store-limit changes.
inline constexpr std::size_t kStoreTableBytes = std::size_t{1} << 30;     // all keys and values together
inline constexpr std::size_t kStoreKeys = std::size_t{4} << 20;           // number of keys
inline constexpr std::size_t kStoreUnsentBytes = std::size_t{64} << 20;   // replies that one client has not read
inline constexpr std::size_t kStoreBufferBytes = std::size_t{256} << 20;  // partial requests and unread replies
inline constexpr std::size_t kStoreWaitingBytes = std::size_t{1} << 30;   // keys that all clients wait for
inline constexpr std::size_t kStoreConnections = 65'536;                  // number of clients
inline constexpr int kStoreBacklog = 4096;
inline constexpr std::size_t kStoreEntryBytes = 128;                    // counted for each key in addition to its bytes
inline constexpr std::size_t kStoreWorldSize = std::size_t{1} << 20;    // largest world size that a client may claim
inline constexpr std::size_t kStoreNameBytes = 256;                     // longest name that a client may claim
inline constexpr std::size_t kStoreNamedKeys = 16;                      // keys of a wait that messages name
inline constexpr std::size_t kStorePauseBytes = std::size_t{64} << 10;  // unread bytes that block further requests
inline constexpr int kStoreTurnEvents = 128;                            // sockets that the server handles in one turn
inline constexpr int kStoreTurnAccepts = 32;     // connections that the server accepts in one turn
inline constexpr auto kStoreConversation = 1ms;  // requests within this time of each other are a conversation
inline constexpr auto kStoreAwake = 100us;       // how long the server then polls for the next request
inline constexpr auto kStoreTurn = 1ms;          // longest time for which one turn of the server polls
inline constexpr int kStoreNamingTries = 3;      // searches for one client's rank
inline constexpr auto kStoreNamingTime = 50ms;   // limit of a search for the ranks of clients that do not send them
inline constexpr auto kStoreUnreadTime = 5min;   // limit for a client to read its replies
inline constexpr auto kStoreProofTime = 10s;     // limit for a client to prove the token
inline constexpr std::size_t kStoreUnauthenticated = 256;    // unauthenticated connections that are always allowed
inline constexpr std::size_t kStoreUnauthenticatedPart = 4;  // or a quarter of all connections, if that is more
inline constexpr auto kStoreAcceptPause = 50ms;              // pause when no descriptor is left
inline constexpr auto kStoreReportedWait = 5s;         // waits that end in vain are reported if they lasted this long
inline constexpr std::size_t kStoreReportKeys = 1000;  // keys in the answer to INSPECT
inline constexpr std::size_t kStoreReportClients = 20'000;  // clients in the answer to INSPECT
inline constexpr std::size_t kStoreSparedFiles = 256;       // descriptors of ulimit -n that clients cannot use
inline constexpr std::size_t kStoreReadBytes = std::size_t{64} << 10;  // bytes read from a connection in one turn
// The next constants are limits of the client.
inline constexpr auto kStoreFirstPause = 10ms;         // first pause between attempts to connect
inline constexpr auto kStoreLongestPause = 1s;         // longest pause between attempts to connect
inline constexpr auto kStoreHandshake = 5s;            // limit for the server to answer one attempt
inline constexpr int kStoreRepeats = 3;                // repeats of a request that only reads
inline constexpr std::size_t kStoreEagerKeys = 16;     // most keys of a get that is tried without a wait
inline constexpr std::size_t kStoreAbsentKeys = 1000;  // keys of a failed wait that are checked for the message
// The next constants are for the end of the server in rank 0.
inline constexpr auto kStoreGoodbye = 5s;        // limit of the wait for clients that are still connected
inline constexpr auto kStoreGoodbyePoll = 10ms;  // interval of the checks for such clients
// The next constant is for stores of a program that have no wait() of their own.
inline constexpr auto kOwnStorePause = 10ms;  // longest pause between two polls
// The next constants are for the store file.
inline constexpr auto kFileFirstPause = 50us;  // first pause while waiting for the lock or for a key
inline constexpr auto kFileLockPause = 2ms;    // longest pause while waiting for the lock
inline constexpr auto kFileWaitPause = 10ms;   // longest pause while waiting for a key
inline constexpr auto kFileCourtesy = 100us;   // time for which a user leaves the lock to others
inline constexpr auto kFileGoodbye = 5s;       // limit of the wait for the lock at the end
inline constexpr std::size_t kFileReadBytes = std::size_t{1} << 20;  // bytes read at once
// The next constants are for ddplaunch store --join. It gives up a server whose node has failed after
// idle + tries * pause.
inline constexpr auto kStoreAliveIdle = 15s;  // idle time before the first probe
inline constexpr auto kStoreAlivePause = 5s;  // time between probes
inline constexpr int kStoreAliveTries = 3;    // number of probes
inline constexpr auto kStoreJoinWait = 5min;  // limit of the wait for a server that does not run yet
inline constexpr int kStoreWarnings = 20;     // lines about misbehaving store clients

}  // namespace ddp::limits

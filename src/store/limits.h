// Limits of the store. docs/development/limits.md says what happens when one is reached.
#pragma once

#include <chrono>
#include <cstddef>

namespace ddp::limits {

using namespace std::chrono_literals;

// Server: all keys and values together, and their number; what may wait for a client that does not read; all requests
// that are not whole yet and all replies that are not read; the keys that clients wait for; clients. These and those
// of wire/limits.h are the defaults of store/server/store_limits.h, which --store-limit changes.
inline constexpr std::size_t kStoreTableBytes = std::size_t{1} << 30;
inline constexpr std::size_t kStoreKeys = std::size_t{4} << 20;
inline constexpr std::size_t kStoreUnsentBytes = std::size_t{64} << 20;
inline constexpr std::size_t kStoreBufferBytes = std::size_t{256} << 20;
inline constexpr std::size_t kStoreWaitingBytes = std::size_t{1} << 30;
inline constexpr std::size_t kStoreConnections = 65'536;
inline constexpr int kStoreBacklog = 4096;
inline constexpr std::size_t kStoreEntryBytes = 128;                    // counted for each key beside its bytes
inline constexpr std::size_t kStoreWorldSize = std::size_t{1} << 20;    // that a client may claim
inline constexpr std::size_t kStoreNameBytes = 256;                     // the same
inline constexpr std::size_t kStoreNamedKeys = 16;                      // of a wait, in messages
inline constexpr std::size_t kStorePauseBytes = std::size_t{64} << 10;  // unread: no further request is carried out
inline constexpr int kStoreTurnEvents = 128;                            // sockets that one turn of the server looks at
inline constexpr int kStoreTurnAccepts = 32;
inline constexpr auto kStoreConversation = 1ms;        // between two requests: the next one is stayed awake for …
inline constexpr auto kStoreAwake = 100us;             // … so long …
inline constexpr auto kStoreTurn = 1ms;                // … before whoever runs the server has his turn again
inline constexpr int kStoreNamingTries = 3;            // for each client
inline constexpr auto kStoreNamingTime = 50ms;         // for finding the ranks of clients that do not tell them
inline constexpr auto kStoreUnreadTime = 5min;         // replies that nobody reads
inline constexpr auto kStoreProofTime = 10s;           // for a stranger to prove the token
inline constexpr std::size_t kStoreStrangers = 256;    // connections that have yet to prove it, or …
inline constexpr std::size_t kStoreStrangersPart = 4;  // … a quarter of all, if it is more
inline constexpr auto kStoreAcceptPause = 50ms;        // when no descriptor is left
inline constexpr auto kStoreToldWait = 5s;             // a longer wait that is given up is told
inline constexpr std::size_t kStoreReportKeys = 1000;  // in the answer to INSPECT
inline constexpr std::size_t kStoreReportClients = 20'000;
inline constexpr std::size_t kStoreSparedFiles = 256;                  // of ulimit -n, for whoever serves the store
inline constexpr std::size_t kStoreReadBytes = std::size_t{64} << 10;  // one turn of a connection
// Client: pauses between tries to connect, one try to hear from the server, repeats of a request that only reads, and
// keys of one get that is tried without a wait first.
inline constexpr auto kStoreFirstPause = 10ms;
inline constexpr auto kStoreLongestPause = 1s;
inline constexpr auto kStoreHandshake = 5s;
inline constexpr int kStoreRepeats = 3;
inline constexpr std::size_t kStoreEagerKeys = 16;
inline constexpr std::size_t kStoreAbsentKeys = 1000;  // of a wait in vain that are looked for
// Server of rank 0: at the end, for clients that are still there, and how often it looks.
inline constexpr auto kStoreGoodbye = 5s;
inline constexpr auto kStoreGoodbyeLook = 10ms;
// A program's own store that has no wait() of its own: the longest pause between two looks.
inline constexpr auto kOwnStorePause = 10ms;
// Store file: pauses of those that wait for its lock or for a key, how long the lock is left to others, how long it is
// waited for at the end, and what is read at once.
inline constexpr auto kFileFirstPause = 50us;
inline constexpr auto kFileLockPause = 2ms;
inline constexpr auto kFileWaitPause = 10ms;
inline constexpr auto kFileCourtesy = 100us;
inline constexpr auto kFileGoodbye = 5s;
inline constexpr std::size_t kFileReadBytes = std::size_t{1} << 20;
// ddplaunch store --join: a server whose machine is gone is given up after idle + tries * pause.
inline constexpr auto kStoreAliveIdle = 15s;
inline constexpr auto kStoreAlivePause = 5s;
inline constexpr int kStoreAliveTries = 3;
inline constexpr auto kStoreJoinWait = 5min;  // for a server that is not there yet
inline constexpr int kStoreWarnings = 20;     // lines about misbehaving store clients

}  // namespace ddp::limits

// ddp_page.h shows ddplaunch what this process is doing, for a program that does not link ddplaunch's runtime. If the
// job hangs, ddplaunch reports it. ddplaunch also grants the extra time that the program asks for, and does not report
// a process that makes progress as hung. This is one header for C11 and C++17 (gcc, clang; Linux), to be copied into
// the program. It needs only libc.
//
//   #include "ddp_page.h"
//
//   ddp_page *page = ddp_page_open();  // call once in main(); NULL without ddplaunch, then all calls do nothing
//   DDP_PHASE(page, DDP_PHASE_TRAINING, "epoch 1");
//   for (int step = 0; step < steps; ++step) {
//     train();
//     ddp_heartbeat(page);
//   }
//   DDP_PHASE(page, DDP_PHASE_CHECKPOINT, "");
//   ddp_extend(page, 1800);  // the next operation may take half an hour
//   write_checkpoint();
//
// The status page belongs to the first process that opens it. Its children do not write to it: ddp_page_open() returns
// NULL in a child, and in a forked child all functions do nothing. If a child opens the page before its parent does,
// the page belongs to the child.
//
// The constants describe the layout of the page for any language. docs/development/protocol.md, section 6, says what
// the fields mean. Numbers are in native byte order and aligned. The launcher, another process, reads the page while
// this process writes it.
#ifndef DDP_PAGE_H
#define DDP_PAGE_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

// A page with another version or size is not used.
#define DDP_PAGE_MAGIC 0x50504444u  // "DDPP"
#define DDP_PAGE_VERSION 6u
#define DDP_PAGE_BYTES 153984

// These offsets are in bytes from the start of the status page. The comments give the types of the fields.
#define DDP_PAGE_AT_MAGIC 0              // u32
#define DDP_PAGE_AT_VERSION 4            // u32
#define DDP_PAGE_AT_BYTES 8              // u32
#define DDP_PAGE_AT_RANK 12              // i32
#define DDP_PAGE_AT_LOCAL_RANK 16        // i32
#define DDP_PAGE_AT_ATTEMPT 20           // i32
#define DDP_PAGE_AT_LOST_RANK 24         // i32, atomic: the rank whose failure ends the job, -1 if none
#define DDP_PAGE_AT_WRITER 28            // i32, atomic: pid of the process that writes the other fields, 0 if none
#define DDP_PAGE_AT_GROUPS_NOT_SHOWN 32  // u32, atomic
#define DDP_PAGE_AT_PLACES 36            // u32, atomic
#define DDP_PAGE_AT_OTHER_PROGRESS 48    // u64, atomic: steps and operations that no other field shows
#define DDP_PAGE_AT_STOP_REQUEST 64      // u32, atomic, set by ddplaunch: 1 if the program is to save and exit
#define DDP_PAGE_AT_PROGRESS_DONE 88     // u64, atomic: steps that are done
#define DDP_PAGE_AT_PROGRESS_TOTAL 96    // u64, atomic: steps in total, 0 if unknown
#define DDP_PAGE_AT_WORKER 128           // the worker block
#define DDP_PAGE_AT_GROUPS 320           // group blocks, one after the other
#define DDP_PAGE_GROUPS 32
#define DDP_PAGE_NO_RANK_LOST (-1)

// These offsets are in bytes from the start of the worker block. The comments give the types of the fields.
#define DDP_WORKER_BYTES 192
#define DDP_WORKER_AT_CHANGES 0           // u32, atomic: odd while the fields that are not atomic are written
#define DDP_WORKER_AT_PHASE 4             // u32: enum ddp_page_phase
#define DDP_WORKER_AT_SINCE 8             // u64: CLOCK_MONOTONIC, nanoseconds
#define DDP_WORKER_AT_LINE 16             // i32: line of the phase call in its file, 0 if unknown
#define DDP_WORKER_AT_STEPS 24            // u64, atomic
#define DDP_WORKER_AT_MORE_TIME_UNTIL 32  // u64, atomic: CLOCK_MONOTONIC, nanoseconds
#define DDP_WORKER_AT_CALLING_THREADS 40  // u32, atomic: threads that have called operations
#define DDP_WORKER_AT_WAITING_THREADS 44  // u32, atomic: calling threads that wait for an operation
#define DDP_WORKER_AT_POLLED_AT 48        // u64, atomic: CLOCK_MONOTONIC, nanoseconds
#define DDP_WORKER_AT_NAME 64             // name of the phase, cut at its end, 0-terminated
#define DDP_WORKER_NAME_BYTES 48
#define DDP_WORKER_AT_FILE 112  // file of the phase call, cut at its start, 0-terminated
#define DDP_WORKER_FILE_BYTES 80

// These offsets are in bytes from the start of a group block. The comments give the types of the fields.
#define DDP_GROUP_BYTES 4288
#define DDP_GROUP_AT_IN_USE 0     // u32, atomic
#define DDP_GROUP_AT_RANK 4       // i32
#define DDP_GROUP_AT_SIZE 8       // i32
#define DDP_GROUP_AT_IDENTITY 16  // u64: equal on all ranks of the group, different in each other group
#define DDP_GROUP_AT_NAME 32      // name of the group, 0-terminated
#define DDP_GROUP_NAME_BYTES 48
#define DDP_GROUP_AT_CALLED 80               // u64, atomic
#define DDP_GROUP_AT_STARTED 88              // u64, atomic
#define DDP_GROUP_AT_FINISHED 96             // u64, atomic
#define DDP_GROUP_AT_TRANSFERS_CALLED 104    // u64, atomic
#define DDP_GROUP_AT_TRANSFERS_FINISHED 112  // u64, atomic
#define DDP_GROUP_AT_GPU_QUEUED 120          // u64, atomic
#define DDP_GROUP_AT_GPU_STARTED 128         // u64, atomic
#define DDP_GROUP_AT_GPU_FINISHED 136        // u64, atomic
#define DDP_GROUP_AT_CALLS 192               // call blocks, one after the other; call n is in block (n - 1) % 16
#define DDP_GROUP_CALLS 16
#define DDP_GROUP_AT_TRANSFERS 3264  // transfer blocks, in no particular order
#define DDP_GROUP_TRANSFERS 8

// These offsets are in bytes from the start of a call block. The comments give the types of the fields.
#define DDP_CALL_BYTES 192
#define DDP_CALL_AT_SEQUENCE 0     // u64, atomic: 0 while the other fields are written
#define DDP_CALL_AT_FINGERPRINT 8  // u64
#define DDP_CALL_AT_CALLED_AT 16   // u64: CLOCK_MONOTONIC, nanoseconds
#define DDP_CALL_AT_COUNT 24       // u64
#define DDP_CALL_AT_PEER 32        // i32
#define DDP_CALL_AT_LINE 36        // i32
#define DDP_CALL_AT_OPERATION 40   // u8
#define DDP_CALL_AT_TYPE 41        // u8
#define DDP_CALL_AT_OP 42          // u8
#define DDP_CALL_AT_NAME 48        // name of the call, 0-terminated
#define DDP_CALL_NAME_BYTES 64
#define DDP_CALL_AT_FILE 112  // file of the call, cut at its start, 0-terminated
#define DDP_CALL_FILE_BYTES 80

// These offsets are in bytes from the start of a transfer block, which describes a send or a receive.
#define DDP_TRANSFER_BYTES 128
#define DDP_TRANSFER_AT_NUMBER 0      // u64, atomic: number per kind and peer; 0 while the rest is written
#define DDP_TRANSFER_AT_IS_DONE 8     // u32, atomic
#define DDP_TRANSFER_AT_WAITERS 12    // u32, atomic: threads that wait for it
#define DDP_TRANSFER_AT_CALLED_AT 16  // u64: CLOCK_MONOTONIC, nanoseconds
#define DDP_TRANSFER_AT_COUNT 24      // u64
#define DDP_TRANSFER_AT_PEER 32       // i32: rank in the group
#define DDP_TRANSFER_AT_LINE 36       // i32
#define DDP_TRANSFER_AT_OPERATION 40  // u8
#define DDP_TRANSFER_AT_TYPE 41       // u8
#define DDP_TRANSFER_AT_FILE 48       // file of the call, cut at its start, 0-terminated
#define DDP_TRANSFER_FILE_BYTES 80

// This environment variable holds the file descriptor of the status page.
#define DDP_PAGE_VARIABLE "DDP_PAGE_FD"

// The record ring is a second memory, which the launcher offers beside the page. It takes records of steps and phases,
// and the values that the program reports. docs/development/protocol.md, section 8, says what the fields mean. These
// offsets are in bytes from its start. The comments give the types of the fields.
#define DDP_RING_VARIABLE "DDP_RECORD_FD"
#define DDP_RING_MAGIC 0x52504444u  // "DDPR"
#define DDP_RING_VERSION 1u
#define DDP_RING_BYTES 147968
#define DDP_RING_AT_MAGIC 0          // u32
#define DDP_RING_AT_VERSION 4        // u32
#define DDP_RING_AT_BYTES 8          // u32
#define DDP_RING_AT_MODE 12          // u32, atomic: enum ddp_ring_mode
#define DDP_RING_AT_WRITER 16        // i32, atomic: pid of the process that writes, 0 if none
#define DDP_RING_AT_DROPPED 24       // u64, atomic: records for which there was no space
#define DDP_RING_AT_CLAIMED 64       // u64, atomic: records that writers have begun
#define DDP_RING_AT_TAKEN 128        // u64, atomic, written by ddplaunch: records that it has taken
#define DDP_RING_AT_CHANGES 192      // u32, atomic: odd while the values are written
#define DDP_RING_AT_VALUE_COUNT 196  // u32
#define DDP_RING_AT_VALUES 200       // value blocks
#define DDP_RING_VALUES 8
#define DDP_RING_AT_NAMES 512  // name blocks; the first one is unused
#define DDP_RING_NAMES 256
#define DDP_RING_AT_RECORDS 16896  // record blocks; record n is in block n % 4096
#define DDP_RING_RECORDS 4096

// These offsets are in bytes from the start of a value block.
#define DDP_VALUE_BYTES 32
#define DDP_VALUE_AT_NAME 0  // name, 0-terminated
#define DDP_VALUE_NAME_BYTES 24
#define DDP_VALUE_AT_VALUE 24  // f64

// These offsets are in bytes from the start of a name block.
#define DDP_NAME_BYTES 64
#define DDP_NAME_AT_HASH 0  // u32, atomic: 0 if the block is free, 1 while the text is written
#define DDP_NAME_AT_TEXT 4  // text, 0-terminated
#define DDP_NAME_TEXT_BYTES 60

// These offsets are in bytes from the start of a record block.
#define DDP_RECORD_BYTES 32
#define DDP_RECORD_AT_BEGIN 0       // u64, atomic: CLOCK_MONOTONIC, nanoseconds; written last
#define DDP_RECORD_AT_END 8         // u64: CLOCK_MONOTONIC, nanoseconds
#define DDP_RECORD_AT_BYTES 16      // u64
#define DDP_RECORD_AT_NUMBER 24     // u32
#define DDP_RECORD_AT_KIND 28       // u8: enum ddp_record_kind
#define DDP_RECORD_AT_GROUP 29      // u8: 255 if there is none
#define DDP_RECORD_AT_OPERATION 30  // u8: of a phase, enum ddp_page_phase
#define DDP_RECORD_AT_NAME 31       // u8: index of a name block, 0 if there is none
#define DDP_RECORD_NO_GROUP 255
// ddp_extend() limits a request to this many seconds (31 years).
#define DDP_PAGE_MOST_SECONDS 1e9

// ddplaunch allows more time in the phases evaluation, checkpoint and data loading.
enum ddp_page_phase {
  DDP_PHASE_STARTING = 0,
  DDP_PHASE_CONNECTED = 1,
  DDP_PHASE_RENDEZVOUS = 2,
  DDP_PHASE_COMMUNICATOR = 3,
  DDP_PHASE_TRAINING = 4,
  DDP_PHASE_EVALUATION = 5,
  DDP_PHASE_CHECKPOINT = 6,
  DDP_PHASE_DATA_LOADING = 7,
  DDP_PHASE_FINISHING = 8,
  DDP_PHASE_DONE = 9
};

enum ddp_ring_mode { DDP_RING_OFF = 0, DDP_RING_STEPS = 1, DDP_RING_ALL = 2 };

// These are the kinds of records that this header writes.
enum ddp_record_kind { DDP_RECORD_STEP = 1, DDP_RECORD_PHASE = 5 };

// This is the status page in memory. It has DDP_PAGE_BYTES bytes.
typedef struct ddp_page ddp_page;

// Calls ddp_phase() with the source location of the call.
#define DDP_PHASE(page, phase, name) ddp_phase(page, phase, name, __FILE__, __LINE__)

#ifdef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#endif
// NOLINTBEGIN(modernize-use-nullptr,bugprone-not-null-terminated-result): it is C, and its texts are filled with 0

// With -std=c11, libc hides the clock unless the program asks for POSIX.
#ifdef CLOCK_MONOTONIC
#define DDP_PAGE_CLOCK CLOCK_MONOTONIC
#else
#define DDP_PAGE_CLOCK 1
int clock_gettime(int clock, struct timespec* now);
#endif

static inline void* ddp_page_at(ddp_page* page, size_t offset) {
  return (char*)page + offset;
}

static inline uint32_t* ddp_page_u32(ddp_page* page, size_t offset) {
  return (uint32_t*)ddp_page_at(page, offset);
}

static inline int32_t* ddp_page_i32(ddp_page* page, size_t offset) {
  return (int32_t*)ddp_page_at(page, offset);
}

static inline uint64_t* ddp_page_u64(ddp_page* page, size_t offset) {
  return (uint64_t*)ddp_page_at(page, offset);
}

static inline uint64_t ddp_page_now(void) {
  struct timespec now = {0, 0};
  clock_gettime(DDP_PAGE_CLOCK, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// Returns whether this process writes the page. A forked child inherits the mapping, but does not write.
static inline int ddp_page_is_ours(ddp_page* page) {
  if (page == NULL) return 0;
  return __atomic_load_n(ddp_page_i32(page, DDP_PAGE_AT_WRITER), __ATOMIC_RELAXED) == (int32_t)getpid();
}

// Parses a file descriptor that consists of decimal digits only. Returns -1 if `text` is anything else.
static inline int ddp_page_descriptor(const char* text) {
  int fd = 0;
  if (text == NULL || *text == '\0' || strlen(text) > 9) return -1;
  for (; *text != '\0'; ++text) {
    if (*text < '0' || *text > '9') return -1;
    fd = fd * 10 + (*text - '0');
  }
  return fd;
}

// Returns this process's status page. Returns NULL if there is none, if another process writes it, or if the descriptor
// is closed or refers to something else. One call is enough; further calls are no error. The page stays mapped until
// the process ends.
static inline ddp_page* ddp_page_open(void) {
  struct stat status;
  const int fd = ddp_page_descriptor(getenv(DDP_PAGE_VARIABLE));
  if (fd < 0 || fstat(fd, &status) != 0 || status.st_size != DDP_PAGE_BYTES) return NULL;
  void* memory = mmap(NULL, DDP_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return NULL;
  ddp_page* page = (ddp_page*)memory;
  const int32_t self = (int32_t)getpid();
  int32_t writer = 0;
  if (*ddp_page_u32(page, DDP_PAGE_AT_MAGIC) == DDP_PAGE_MAGIC &&
      *ddp_page_u32(page, DDP_PAGE_AT_VERSION) == DDP_PAGE_VERSION &&
      (__atomic_compare_exchange_n(ddp_page_i32(page, DDP_PAGE_AT_WRITER), &writer, self, 0, __ATOMIC_SEQ_CST,
                                   __ATOMIC_SEQ_CST) ||
       writer == self)) {
    return page;
  }
  munmap(memory, DDP_PAGE_BYTES);
  return NULL;
}

// Holds what this process knows of its record ring. Each source file that includes this header has one.
struct ddp_ring_state {
  char* ring;          // NULL if there is none
  int is_open;         // 1 if the ring has been looked for
  uint64_t step_end;   // CLOCK_MONOTONIC, nanoseconds; 0 if it is unknown
  uint64_t next_step;  // the step that ddp_progress_at() reported last, plus 1; 0 if there is none
};

static inline struct ddp_ring_state* ddp_ring_state_here(void) {
  static struct ddp_ring_state state = {NULL, 0, 0, 0};
  return &state;
}

static inline uint64_t* ddp_ring_u64(char* ring, size_t offset) {
  return (uint64_t*)(void*)(ring + offset);
}

static inline uint32_t* ddp_ring_u32(char* ring, size_t offset) {
  return (uint32_t*)(void*)(ring + offset);
}

static inline char* ddp_ring_map(void) {
  struct stat status;
  const int fd = ddp_page_descriptor(getenv(DDP_RING_VARIABLE));
  if (fd < 0 || fstat(fd, &status) != 0 || status.st_size < DDP_RING_BYTES) return NULL;
  void* memory = mmap(NULL, DDP_RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return NULL;
  char* ring = (char*)memory;
  const uint32_t self = (uint32_t)getpid();
  uint32_t writer = 0;
  if (*ddp_ring_u32(ring, DDP_RING_AT_MAGIC) == DDP_RING_MAGIC &&
      *ddp_ring_u32(ring, DDP_RING_AT_VERSION) == DDP_RING_VERSION &&
      *ddp_ring_u32(ring, DDP_RING_AT_BYTES) >= DDP_RING_BYTES &&
      (__atomic_compare_exchange_n(ddp_ring_u32(ring, DDP_RING_AT_WRITER), &writer, self, 0, __ATOMIC_SEQ_CST,
                                   __ATOMIC_SEQ_CST) ||
       writer == self)) {
    return ring;
  }
  munmap(memory, DDP_RING_BYTES);
  return NULL;
}

// Returns the record ring, or NULL if there is none. The caller must be the writer of the status page.
static inline char* ddp_ring_open(void) {
  struct ddp_ring_state* state = ddp_ring_state_here();
  if (!__atomic_load_n(&state->is_open, __ATOMIC_ACQUIRE)) {
    char* ring = ddp_ring_map();
    char* none = NULL;
    if (ring != NULL &&
        !__atomic_compare_exchange_n(&state->ring, &none, ring, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
      munmap(ring, DDP_RING_BYTES);  // another thread was faster
    }
    __atomic_store_n(&state->is_open, 1, __ATOMIC_RELEASE);
  }
  return __atomic_load_n(&state->ring, __ATOMIC_RELAXED);
}

static inline int ddp_ring_is_on(char* ring) {
  if (ring == NULL) return 0;
  const uint32_t mode = __atomic_load_n(ddp_ring_u32(ring, DDP_RING_AT_MODE), __ATOMIC_RELAXED);
  return mode == DDP_RING_STEPS || mode == DDP_RING_ALL;
}

// Returns the index of the block with this text, which has less than DDP_NAME_TEXT_BYTES bytes. Makes the block if
// there is none. Returns 0 if the text is empty, and if no block is free.
static inline uint8_t ddp_ring_name(char* ring, const char* text) {
  const size_t size = strlen(text);
  uint32_t hash = 2166136261u;  // FNV-1a
  if (size == 0 || size >= DDP_NAME_TEXT_BYTES) return 0;
  for (size_t i = 0; i < size; ++i) hash = (hash ^ (uint8_t)text[i]) * 16777619u;
  if (hash < 2) hash = 2;
  for (uint32_t probe = 0; probe < 8; ++probe) {
    const uint32_t place = 1 + (hash + probe) % (DDP_RING_NAMES - 1);
    const size_t block = DDP_RING_AT_NAMES + (size_t)place * DDP_NAME_BYTES;
    uint32_t* held = ddp_ring_u32(ring, block + DDP_NAME_AT_HASH);
    char* held_text = ring + block + DDP_NAME_AT_TEXT;
    uint32_t found = __atomic_load_n(held, __ATOMIC_ACQUIRE);
    if (found == 0 && __atomic_compare_exchange_n(held, &found, 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
      memcpy(held_text, text, size + 1);
      __atomic_store_n(held, hash, __ATOMIC_RELEASE);
      return (uint8_t)place;
    }
    if (found == hash && memcmp(held_text, text, size + 1) == 0) return (uint8_t)place;
  }
  return 0;
}

static inline void ddp_ring_add(char* ring, enum ddp_record_kind kind, uint64_t begin, uint64_t end, uint32_t number,
                                uint8_t operation, const char* name) {
  uint64_t* claimed_at = ddp_ring_u64(ring, DDP_RING_AT_CLAIMED);
  uint64_t claimed = __atomic_load_n(claimed_at, __ATOMIC_RELAXED);
  const uint8_t name_place = ddp_ring_name(ring, name);
  uint64_t next = 0;
  do {
    const uint64_t taken = __atomic_load_n(ddp_ring_u64(ring, DDP_RING_AT_TAKEN), __ATOMIC_ACQUIRE);
    next = claimed < taken ? taken : claimed;
    if (next - taken >= DDP_RING_RECORDS) {
      __atomic_fetch_add(ddp_ring_u64(ring, DDP_RING_AT_DROPPED), 1, __ATOMIC_RELAXED);
      return;
    }
  } while (!__atomic_compare_exchange_n(claimed_at, &claimed, next + 1, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  char* block = ring + DDP_RING_AT_RECORDS + (next % DDP_RING_RECORDS) * DDP_RECORD_BYTES;
  *ddp_ring_u64(block, DDP_RECORD_AT_END) = end;
  *ddp_ring_u64(block, DDP_RECORD_AT_BYTES) = 0;
  *ddp_ring_u32(block, DDP_RECORD_AT_NUMBER) = number;
  *(uint8_t*)(block + DDP_RECORD_AT_KIND) = (uint8_t)kind;
  *(uint8_t*)(block + DDP_RECORD_AT_GROUP) = DDP_RECORD_NO_GROUP;
  *(uint8_t*)(block + DDP_RECORD_AT_OPERATION) = operation;
  *(uint8_t*)(block + DDP_RECORD_AT_NAME) = name_place;
  // Another thread may have ended a step or a phase since the caller read the time.
  const uint64_t began = begin < end ? begin : end;
  __atomic_store_n(ddp_ring_u64(block, DDP_RECORD_AT_BEGIN), began > 0 ? began : 1, __ATOMIC_RELEASE);
}

// Begins the next step now, and records the one that ends now, unless it is unknown when that one began.
static inline void ddp_ring_step(uint64_t number, int is_recorded) {
  char* ring = ddp_ring_open();
  uint64_t* step_end = &ddp_ring_state_here()->step_end;
  if (!ddp_ring_is_on(ring)) {
    __atomic_store_n(step_end, 0, __ATOMIC_RELAXED);
    return;
  }
  const uint64_t end = ddp_page_now();
  const uint64_t begin = __atomic_exchange_n(step_end, end, __ATOMIC_RELAXED);
  if (is_recorded && begin != 0) ddp_ring_add(ring, DDP_RECORD_STEP, begin, end, (uint32_t)number, 0, "");
}

// Reports progress. A program calls it after each step, for example. Any thread may call it.
static inline void ddp_heartbeat(ddp_page* page) {
  if (!ddp_page_is_ours(page)) return;
  uint64_t* steps = ddp_page_u64(page, DDP_PAGE_AT_WORKER + DDP_WORKER_AT_STEPS);
  ddp_ring_step(__atomic_add_fetch(steps, 1, __ATOMIC_RELAXED), 1);
}

// Returns whether ddplaunch asks the program to save and exit (ddplaunch --save-grace). Ranks may see the request at
// different steps: ranks that must agree on it reduce the value over all ranks. Any thread may call it.
static inline int ddp_should_stop(ddp_page* page) {
  if (!ddp_page_is_ours(page)) return 0;
  return __atomic_load_n(ddp_page_u32(page, DDP_PAGE_AT_STOP_REQUEST), __ATOMIC_ACQUIRE) != 0;
}

// Reports that `done` of `total` steps are done; `total` is 0 if unknown. The call counts as progress, like a
// heartbeat. Any thread may call it. In a program that sends no heartbeats, a call with a larger `done` than before
// ends a step, whose duration ddplaunch then shows.
static inline void ddp_progress_at(ddp_page* page, uint64_t done, uint64_t total) {
  if (!ddp_page_is_ours(page)) return;
  __atomic_store_n(ddp_page_u64(page, DDP_PAGE_AT_PROGRESS_TOTAL), total, __ATOMIC_RELAXED);
  __atomic_store_n(ddp_page_u64(page, DDP_PAGE_AT_PROGRESS_DONE), done, __ATOMIC_RELAXED);
  __atomic_fetch_add(ddp_page_u64(page, DDP_PAGE_AT_OTHER_PROGRESS), 1, __ATOMIC_RELAXED);
  const uint64_t* steps = ddp_page_u64(page, DDP_PAGE_AT_WORKER + DDP_WORKER_AT_STEPS);
  const uint64_t before = __atomic_exchange_n(&ddp_ring_state_here()->next_step, done + 1, __ATOMIC_RELAXED);
  if (__atomic_load_n(steps, __ATOMIC_RELAXED) > 0 || before == done + 1) return;
  ddp_ring_step(done, before != 0 && before <= done);
}

// Reports progress like ddp_progress_at(), and `count` values of the program, such as the loss. ddplaunch shows up to 8
// values, and the first 23 bytes of each name. A value may be infinite or NaN. If `count` is 0, the previous values
// stay. Only one thread at a time may call it.
//
//   const char *const names[] = {"loss"};
//   ddp_progress_values(page, step, total, 1, names, &loss);
static inline void ddp_progress_values(ddp_page* page, uint64_t done, uint64_t total, size_t count,
                                       const char* const* names, const double* values) {
  if (!ddp_page_is_ours(page)) return;
  char* ring = ddp_ring_open();
  if (ring != NULL && count > 0) {
    uint32_t* changes = ddp_ring_u32(ring, DDP_RING_AT_CHANGES);
    const uint32_t odd = __atomic_load_n(changes, __ATOMIC_RELAXED) | 1u;
    if (count > DDP_RING_VALUES) count = DDP_RING_VALUES;
    __atomic_store_n(changes, odd, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    for (size_t i = 0; i < count; ++i) {
      char* block = ring + DDP_RING_AT_VALUES + i * DDP_VALUE_BYTES;
      size_t length = strlen(names[i]);
      if (length > DDP_VALUE_NAME_BYTES - 1) length = DDP_VALUE_NAME_BYTES - 1;
      memset(block + DDP_VALUE_AT_NAME, 0, DDP_VALUE_NAME_BYTES);
      memcpy(block + DDP_VALUE_AT_NAME, names[i], length);
      memcpy(block + DDP_VALUE_AT_VALUE, &values[i], sizeof values[i]);
    }
    *ddp_ring_u32(ring, DDP_RING_AT_VALUE_COUNT) = (uint32_t)count;
    __atomic_store_n(changes, odd + 1, __ATOMIC_RELEASE);
  }
  ddp_progress_at(page, done, total);
}

// Records the phase that ends now, as the page shows it, unless it is training.
static inline void ddp_ring_end_phase(ddp_page* page) {
  char* ring = ddp_ring_open();
  const uint32_t phase = *ddp_page_u32(page, DDP_PAGE_AT_WORKER + DDP_WORKER_AT_PHASE);
  const uint64_t since = *ddp_page_u64(page, DDP_PAGE_AT_WORKER + DDP_WORKER_AT_SINCE);
  if (!ddp_ring_is_on(ring) || since == 0 || phase == DDP_PHASE_TRAINING) return;
  char name[DDP_WORKER_NAME_BYTES];
  memcpy(name, ddp_page_at(page, DDP_PAGE_AT_WORKER + DDP_WORKER_AT_NAME), sizeof name);
  name[sizeof name - 1] = '\0';
  ddp_ring_add(ring, DDP_RECORD_PHASE, since, ddp_page_now(), 0, (uint8_t)phase, name);
}

// Reports that this process is in `phase` from now on. `name` describes the phase and is cut to 47 bytes; the last 79
// bytes of `file` are kept. Both may be NULL; line 0 means that the line is unknown. Only one thread at a time may call
// it.
static inline void ddp_phase(ddp_page* page, enum ddp_page_phase phase, const char* name, const char* file, int line) {
  if (!ddp_page_is_ours(page)) return;
  ddp_ring_end_phase(page);
  const size_t worker = DDP_PAGE_AT_WORKER;
  const size_t most_name = DDP_WORKER_NAME_BYTES - 1;
  const size_t most_file = DDP_WORKER_FILE_BYTES - 1;
  size_t name_length = name == NULL ? 0 : strlen(name);
  size_t file_length = file == NULL ? 0 : strlen(file);
  if (name_length > most_name) name_length = most_name;
  if (file_length > most_file) {
    file += file_length - most_file;
    file_length = most_file;
  }
  char* name_to = (char*)ddp_page_at(page, worker + DDP_WORKER_AT_NAME);
  char* file_to = (char*)ddp_page_at(page, worker + DDP_WORKER_AT_FILE);

  uint32_t* changes = ddp_page_u32(page, worker + DDP_WORKER_AT_CHANGES);
  const uint32_t odd = __atomic_load_n(changes, __ATOMIC_RELAXED) | 1u;
  __atomic_store_n(changes, odd, __ATOMIC_RELAXED);
  __atomic_thread_fence(__ATOMIC_RELEASE);
  *ddp_page_u32(page, worker + DDP_WORKER_AT_PHASE) = (uint32_t)phase;
  *ddp_page_u64(page, worker + DDP_WORKER_AT_SINCE) = ddp_page_now();
  *ddp_page_i32(page, worker + DDP_WORKER_AT_LINE) = line;
  memset(name_to, 0, DDP_WORKER_NAME_BYTES);
  memset(file_to, 0, DDP_WORKER_FILE_BYTES);
  if (name_length > 0) memcpy(name_to, name, name_length);
  if (file_length > 0) memcpy(file_to, file, file_length);
  __atomic_store_n(changes, odd + 1, __ATOMIC_RELEASE);
}

// Announces an operation that may take `seconds`. Until then, ddplaunch does not report this process as hung. If
// several calls ask for time, the latest moment counts. A negative number or NaN has no effect. Any thread may call it.
static inline void ddp_extend(ddp_page* page, double seconds) {
  if (!ddp_page_is_ours(page) || !(seconds >= 0)) return;
  if (seconds > DDP_PAGE_MOST_SECONDS) seconds = DDP_PAGE_MOST_SECONDS;
  const uint64_t until = ddp_page_now() + (uint64_t)(seconds * 1e9);
  uint64_t* place = ddp_page_u64(page, DDP_PAGE_AT_WORKER + DDP_WORKER_AT_MORE_TIME_UNTIL);
  uint64_t now = __atomic_load_n(place, __ATOMIC_RELAXED);
  while (now < until && !__atomic_compare_exchange_n(place, &now, until, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

// NOLINTEND(modernize-use-nullptr,bugprone-not-null-terminated-result)
#ifdef __cplusplus
#pragma GCC diagnostic pop
#endif

#endif

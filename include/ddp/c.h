// The C interface of the runtime: process groups and their collectives for C, Rust, Fortran, Julia, Python's ctypes and
// every other language that can call C. Plain C99. docs/reference/c-api.md explains the rules with examples.
//
//   ddp_group* world = NULL;
//   float sums[4] = {1, 2, 3, 4};
//   if (ddp_init(NULL, &world) != DDP_OK ||
//       ddp_all_reduce(world, sums, 4, DDP_TYPE_F32, DDP_OP_SUM, NULL, NULL) != DDP_OK ||
//       ddp_finalize(world) != DDP_OK) {
//     fprintf(stderr, "%s\n", ddp_last_error());
//     return 1;
//   }
//   ddp_group_destroy(world);
//
// Status. Every function that can fail returns an int: DDP_OK, or a value of enum ddp_status. No C++ exception leaves
// the library. ddp_last_error() has the text. A function that fails sets its output arguments to NULL or 0, except
// `done` of ddp_work_test() and ddp_work_wait_for().
//
// Handles. ddp_group, ddp_work and ddp_progress are opaque. A handle is a number in the form of a pointer, and it is
// never used twice: a handle that was destroyed, or that never was one, gives DDP_ERROR_INVALID_ARGUMENT. A *_destroy
// function, and ddp_free(), do nothing with NULL.
//
// Work. The last argument of a collective, of send and of recv is `ddp_work** work`. If it is NULL, the call blocks
// until the operation is done and returns the operation's status. Otherwise the call returns at once and stores a
// handle, which the caller destroys; the buffers must stay valid until the operation is done.
//
// Threads. Every function may be called from any thread. Calls of several threads on one group get into one order,
// which must be the same on all ranks. A thread inside one of these functions must not be cancelled (pthread_cancel),
// nor left by longjmp. A child that was forked after ddp_init() must not call any of them.
//
// Growth. Values of enumerations never change. Structures begin with struct_size = sizeof(the structure) and get new
// fields at the end only; what is 0 has its default. Functions are added, and never get other arguments.
#ifndef DDP_C_H
#define DDP_C_H

#include <ddp/version.h>

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define DDP_C_API __attribute__((visibility("default")))
#else
#define DDP_C_API
#endif

// Increases if a program that was compiled against an older header could no longer run.
#define DDP_C_ABI_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

// Chosen by what the caller can do about it, as ddp::ErrorKind.
enum ddp_status {
  DDP_OK = 0,
  DDP_ERROR_INVALID_ARGUMENT = 1,  // correct the call
  DDP_ERROR_TIMEOUT = 2,           // a peer did not answer in time; exit, and be restarted
  DDP_ERROR_PEER_LOST = 3,         // a peer is gone; exit, and be restarted
  DDP_ERROR_MISMATCH = 4,          // the ranks called different things
  DDP_ERROR_UNAVAILABLE = 5,       // it does not work here, or memory ran out; choose something else
  DDP_ERROR_ABORTED = 6,           // the group was closed, or an earlier operation failed
  DDP_ERROR_CORRUPT = 7,           // a file's content is not what was written
  DDP_ERROR_INTERNAL = 8           // a defect of the runtime; report it
};

// What the elements of a buffer are: int32_t in calls.
enum ddp_type {
  DDP_TYPE_F16 = 0,   // IEEE 754 binary16
  DDP_TYPE_BF16 = 1,  // the upper half of a binary32
  DDP_TYPE_F32 = 2,
  DDP_TYPE_F64 = 3,
  DDP_TYPE_I8 = 4,
  DDP_TYPE_I16 = 5,
  DDP_TYPE_I32 = 6,
  DDP_TYPE_I64 = 7,
  DDP_TYPE_U8 = 8,
  DDP_TYPE_BOOL = 9  // a byte, 0 or 1
};

// How the values of all ranks become one: int32_t in calls. ddp/reduce_op.h defines each of them.
enum ddp_op {
  DDP_OP_SUM = 0,
  DDP_OP_AVERAGE = 1,  // floating-point types
  DDP_OP_PRODUCT = 2,
  DDP_OP_MIN = 3,
  DDP_OP_MAX = 4,
  DDP_OP_BIT_AND = 5,  // integer types and bool, as the next two
  DDP_OP_BIT_OR = 6,
  DDP_OP_BIT_XOR = 7,
  DDP_OP_PREMULTIPLIED_SUM = 8  // floating-point types; each rank's values times its ddp_call_options.factor
};

// Where a buffer is.
enum ddp_device { DDP_DEVICE_CPU = 0, DDP_DEVICE_CUDA = 1 };

// What this process is doing, for ddp_progress_begin(). The library itself reports the others.
enum ddp_progress_phase {
  DDP_PROGRESS_STARTING = 0,
  DDP_PROGRESS_CONNECTED = 1,
  DDP_PROGRESS_RENDEZVOUS = 2,
  DDP_PROGRESS_COMMUNICATOR = 3,
  DDP_PROGRESS_TRAINING = 4,
  DDP_PROGRESS_EVALUATION = 5,
  DDP_PROGRESS_CHECKPOINT = 6,
  DDP_PROGRESS_DATA_LOADING = 7,
  DDP_PROGRESS_FINISHING = 8,
  DDP_PROGRESS_DONE = 9
};

typedef struct ddp_group ddp_group;        // a process group, as ddp::ProcessGroup
typedef struct ddp_work ddp_work;          // an operation under way, as ddp::Work
typedef struct ddp_progress ddp_progress;  // a phase that has begun, as ddp::PhaseScope

typedef struct ddp_init_options {
  size_t struct_size;
  const char* backend;       // "cpu", "gloo", "nccl", "mpi" or several: "nccl,gloo"; NULL: DDP_BACKEND, or the best
  const char* init_method;   // "env://", "tcp://HOST:PORT?rank=R&world_size=N", "file:///PATH?..."; NULL: "env://"
  int64_t timeout_ms;        // of each operation; 0: 10 minutes, and no limit under ddplaunch
  int64_t store_timeout_ms;  // of each call of the store; 0: 5 minutes
  int32_t rank;              // counts if world_size is not 0
  int32_t world_size;        // 0: the environment or init_method has both
} ddp_init_options;

#define DDP_INIT_OPTIONS_INIT \
  { sizeof(ddp_init_options), NULL, NULL, 0, 0, 0, 0 }

// What can be specified for a single call. NULL instead of the structure: the defaults.
typedef struct ddp_call_options {
  size_t struct_size;
  int64_t timeout_ms;  // 0: the group's
  const char* name;    // for messages, the same on all ranks: "bucket 3"; copied
  void* stream;        // nccl: a cudaStream_t; counts if has_stream is not 0
  double factor;       // of DDP_OP_PREMULTIPLIED_SUM
  int32_t has_stream;
  int32_t device;  // of all buffers of the call: enum ddp_device
} ddp_call_options;

#define DDP_CALL_OPTIONS_INIT \
  { sizeof(ddp_call_options), 0, NULL, NULL, 0, 0, DDP_DEVICE_CPU }

// What one rank gives or gets, where counts differ between ranks.
typedef struct ddp_part {
  void* data;
  int64_t count;  // elements
} ddp_part;

// The last error of this thread. The library sets struct_size: a field exists if it lies within that size.
typedef struct ddp_error_details {
  size_t struct_size;
  int32_t status;         // enum ddp_status
  int32_t peer;           // the rank of the group that is gone, late or different; -1: unknown
  const char* text;       // what ddp_last_error() returns
  const char* group;      // of a failed operation: the group's name; otherwise ""
  const char* operation;  // of a failed operation: "all_reduce"; otherwise ""
  int64_t sequence;       // of a failed operation: its number on the group, from 1; otherwise 0
  int32_t rank;           // of a failed operation: this process's rank in the group; otherwise -1
  int32_t reserved;
} ddp_error_details;

// ---- The library and its errors ------------------------------------------------------------------------------------

// "0.1.0", and the DDP_C_ABI_VERSION of the library.
DDP_C_API const char* ddp_version(void);
DDP_C_API int ddp_c_abi_version(void);

// "peer_lost" and so on; "unknown" for other numbers.
DDP_C_API const char* ddp_status_name(int status);

// The text of the last call on this thread that failed; "" if none has. It says what was tried, on which rank and
// group, why it failed and what to do. Valid until another call fails on this thread. A call that succeeds keeps it.
DDP_C_API const char* ddp_last_error(void);
DDP_C_API const ddp_error_details* ddp_last_error_details(void);

// ---- The environment; may be called before ddp_init() --------------------------------------------------------------

DDP_C_API int ddp_local_rank(int32_t* local_rank);        // of this process on its node: which GPU to take
DDP_C_API int ddp_local_size(int32_t* local_size);        // processes of the job on this node
DDP_C_API int ddp_restart_count(int32_t* restart_count);  // 0 in the first attempt

// ---- Groups --------------------------------------------------------------------------------------------------------

// Joins the group of all ranks. `options` may be NULL. A process that no launcher started is a world of one.
DDP_C_API int ddp_init(const ddp_init_options* options, ddp_group** world);

// A group of some ranks of `group`: rank i of it is ranks[i]. Only they call it, each with the same list; it blocks
// until all have. `name` may be NULL.
DDP_C_API int ddp_new_group(ddp_group* group, const int32_t* ranks, int64_t count, const char* name, ddp_group** made);

// One group for each color, its ranks in the order of (key, rank). Every rank calls it; it blocks. A negative color
// stores NULL in `made`.
DDP_C_API int ddp_split(ddp_group* group, int32_t color, int32_t key, ddp_group** made);

DDP_C_API int ddp_group_rank(const ddp_group* group, int32_t* rank);
DDP_C_API int ddp_group_size(const ddp_group* group, int32_t* size);
// Texts are valid until the group is destroyed.
DDP_C_API int ddp_group_name(const ddp_group* group, const char** name);
DDP_C_API int ddp_group_backend(const ddp_group* group, const char** backend);        // "cpu", "gloo", "nccl", "mpi"
DDP_C_API int ddp_group_backend_reason(const ddp_group* group, const char** reason);  // why that one

// Waits until all operations are done, then for all ranks, then leaves. Later calls return DDP_ERROR_ABORTED.
DDP_C_API int ddp_finalize(ddp_group* group);

// All operations of the group, and later ones, fail with DDP_ERROR_ABORTED. Other ranks see this one as lost.
DDP_C_API int ddp_abort(ddp_group* group);

// Waits for the operation that runs; those that have not begun fail with DDP_ERROR_ABORTED. After an error of the
// program's own, call ddp_abort() first: the operation that runs may wait for other ranks.
DDP_C_API int ddp_group_destroy(ddp_group* group);

// ---- Collectives. n is the group's size, and r is this rank. `options` and `work` may be NULL. ---------------------

// In place: afterwards `buffer` holds the reduction over all ranks; with reduce, on `root` only.
DDP_C_API int ddp_all_reduce(ddp_group* group, void* buffer, int64_t count, int32_t type, int32_t op,
                             const ddp_call_options* options, ddp_work** work);
DDP_C_API int ddp_reduce(ddp_group* group, void* buffer, int64_t count, int32_t type, int32_t op, int32_t root,
                         const ddp_call_options* options, ddp_work** work);

// Afterwards `buffer` holds what it held on `root`.
DDP_C_API int ddp_broadcast(ddp_group* group, void* buffer, int64_t count, int32_t type, int32_t root,
                            const ddp_call_options* options, ddp_work** work);

// `input` has `count` elements, and `output` n * count: the inputs of rank 0, 1, ...; with gather, on `root` only.
DDP_C_API int ddp_all_gather(ddp_group* group, const void* input, void* output, int64_t count, int32_t type,
                             const ddp_call_options* options, ddp_work** work);
DDP_C_API int ddp_gather(ddp_group* group, const void* input, void* output, int64_t count, int32_t type, int32_t root,
                         const ddp_call_options* options, ddp_work** work);

// `output` has `count` elements, and gets the r-th part of the n * count elements of `input` on `root`.
DDP_C_API int ddp_scatter(ddp_group* group, const void* input, void* output, int64_t count, int32_t type, int32_t root,
                          const ddp_call_options* options, ddp_work** work);

// `output` has `count` elements, and gets the r-th part of the reduction of all inputs, each of n * count elements.
DDP_C_API int ddp_reduce_scatter(ddp_group* group, const void* input, void* output, int64_t count, int32_t type,
                                 int32_t op, const ddp_call_options* options, ddp_work** work);

// Both have n * count elements. The i-th part of `output` gets the r-th part of rank i's input.
DDP_C_API int ddp_all_to_all(ddp_group* group, const void* input, void* output, int64_t count, int32_t type,
                             const ddp_call_options* options, ddp_work** work);

// The same with a part per rank (`parts` is n), whose counts may differ: outputs[i] gets what rank i gives to this one,
// and inputs[i] is what this rank gives to rank i. Only `root` needs the parts of gather and scatter.
DDP_C_API int ddp_all_gather_parts(ddp_group* group, const void* input, int64_t count, const ddp_part* outputs,
                                   int64_t parts, int32_t type, const ddp_call_options* options, ddp_work** work);
DDP_C_API int ddp_gather_parts(ddp_group* group, const void* input, int64_t count, const ddp_part* outputs,
                               int64_t parts, int32_t type, int32_t root, const ddp_call_options* options,
                               ddp_work** work);
DDP_C_API int ddp_scatter_parts(ddp_group* group, const ddp_part* inputs, int64_t parts, void* output, int64_t count,
                                int32_t type, int32_t root, const ddp_call_options* options, ddp_work** work);
DDP_C_API int ddp_reduce_scatter_parts(ddp_group* group, const ddp_part* inputs, int64_t parts, void* output,
                                       int64_t count, int32_t type, int32_t op, const ddp_call_options* options,
                                       ddp_work** work);
DDP_C_API int ddp_all_to_all_parts(ddp_group* group, const ddp_part* inputs, const ddp_part* outputs, int64_t parts,
                                   int32_t type, const ddp_call_options* options, ddp_work** work);

// Rank `to` calls ddp_recv() with the same count and type. Not to itself.
DDP_C_API int ddp_send(ddp_group* group, const void* buffer, int64_t count, int32_t type, int32_t to,
                       const ddp_call_options* options, ddp_work** work);
DDP_C_API int ddp_recv(ddp_group* group, void* buffer, int64_t count, int32_t type, int32_t from,
                       const ddp_call_options* options, ddp_work** work);

// Done when every rank has called it.
DDP_C_API int ddp_barrier(ddp_group* group, const ddp_call_options* options, ddp_work** work);

// Blocks until every rank has called it. On failure DDP_ERROR_TIMEOUT, with the ranks that did not come. It goes
// through the store: it works while a collective hangs. timeout_ms 0: the group's.
DDP_C_API int ddp_monitored_barrier(ddp_group* group, int64_t timeout_ms);

// ---- Operations under way ------------------------------------------------------------------------------------------

// Blocks until the operation is done (with a stream: until it has begun, and the stream then waits for it), and returns
// its status. May be called again: the status and the text are then the same. Does not destroy the handle.
DDP_C_API int ddp_work_wait(ddp_work* work);

// The same, but no longer than timeout_ms: *done is then 0, the status is DDP_OK, and the operation goes on. *done is 1
// if the operation is done, also if it has failed.
DDP_C_API int ddp_work_wait_for(ddp_work* work, int64_t timeout_ms, int32_t* done);

// Does not block: *done is 1 if the operation is done, and the status is then the operation's.
DDP_C_API int ddp_work_test(ddp_work* work, int32_t* done);

// Does not cancel the operation.
DDP_C_API int ddp_work_destroy(ddp_work* work);

// ---- Memory --------------------------------------------------------------------------------------------------------

// Memory that collectives of this group work on fastest (ProcessGroup::allocate): zeroed, at a multiple of 64 bytes.
// `device`: enum ddp_device. It may outlive the group.
DDP_C_API int ddp_allocate(ddp_group* group, int64_t bytes, int32_t device, void** data);

// Host memory; page-locked with nccl.
DDP_C_API int ddp_allocate_pinned(ddp_group* group, int64_t bytes, void** data);

// Of either function; not while an operation uses it. Other addresses are refused.
DDP_C_API int ddp_free(void* data);

// ---- Signs of life, for ddplaunch. The names differ from those of ddp_board.h, which may be included as well. -------

// A sign of life, as after each step.
DDP_C_API int ddp_progress_heartbeat(void);

// Sets `stop` to 1 if the program has been asked to save and to leave (ddplaunch --save-grace), else to 0. Ranks may
// see it at different steps: those that must agree reduce it.
DDP_C_API int ddp_progress_should_stop(int32_t* stop);

// How far the program is: steps that are done, of so many in all (0: not known). Reports show it, and it is progress as
// a heartbeat is.
DDP_C_API int ddp_progress_report(int64_t done, int64_t total);

// This process is about to do something that may take so long. Until then ddplaunch does not regard it as hanging.
DDP_C_API int ddp_progress_extend(int64_t seconds);

// This process is in `phase` (enum ddp_progress_phase) until the handle is ended. Phases may be nested; they end in the
// reverse order. `name` may be NULL.
DDP_C_API int ddp_progress_begin(int32_t phase, const char* name, ddp_progress** progress);
DDP_C_API int ddp_progress_end(ddp_progress* progress);

// ---- The place in the program --------------------------------------------------------------------------------------

// The next operation that this thread calls is shown with this file and line in messages and hang reports. `file` is
// copied; NULL: unknown. In C and C++ the macros below do it; bindings of other languages may call it themselves.
DDP_C_API void ddp_called_from(const char* file, int line);

#ifdef __cplusplus
}
#endif

// A macro calls the function of the same name. Its address is still the function's: &ddp_all_reduce.
#ifndef DDP_NO_CALL_SITES
#define DDP_AT_(call) (ddp_called_from(__FILE__, __LINE__), call)
#define ddp_split(...) DDP_AT_(ddp_split(__VA_ARGS__))
#define ddp_finalize(...) DDP_AT_(ddp_finalize(__VA_ARGS__))
#define ddp_all_reduce(...) DDP_AT_(ddp_all_reduce(__VA_ARGS__))
#define ddp_reduce(...) DDP_AT_(ddp_reduce(__VA_ARGS__))
#define ddp_broadcast(...) DDP_AT_(ddp_broadcast(__VA_ARGS__))
#define ddp_all_gather(...) DDP_AT_(ddp_all_gather(__VA_ARGS__))
#define ddp_gather(...) DDP_AT_(ddp_gather(__VA_ARGS__))
#define ddp_scatter(...) DDP_AT_(ddp_scatter(__VA_ARGS__))
#define ddp_reduce_scatter(...) DDP_AT_(ddp_reduce_scatter(__VA_ARGS__))
#define ddp_all_to_all(...) DDP_AT_(ddp_all_to_all(__VA_ARGS__))
#define ddp_all_gather_parts(...) DDP_AT_(ddp_all_gather_parts(__VA_ARGS__))
#define ddp_gather_parts(...) DDP_AT_(ddp_gather_parts(__VA_ARGS__))
#define ddp_scatter_parts(...) DDP_AT_(ddp_scatter_parts(__VA_ARGS__))
#define ddp_reduce_scatter_parts(...) DDP_AT_(ddp_reduce_scatter_parts(__VA_ARGS__))
#define ddp_all_to_all_parts(...) DDP_AT_(ddp_all_to_all_parts(__VA_ARGS__))
#define ddp_send(...) DDP_AT_(ddp_send(__VA_ARGS__))
#define ddp_recv(...) DDP_AT_(ddp_recv(__VA_ARGS__))
#define ddp_barrier(...) DDP_AT_(ddp_barrier(__VA_ARGS__))
#define ddp_progress_begin(...) DDP_AT_(ddp_progress_begin(__VA_ARGS__))
#endif

#endif

// This is the C interface of the runtime: process groups and their collectives. It serves C, Rust, Fortran, Julia,
// Python's ctypes and every other language that can call C. It is plain C99. docs/reference/c-api.md explains the rules
// with examples.
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
// Status. Every function that can fail returns DDP_OK or another value of enum ddp_status. No C++ exception leaves the
// library. ddp_last_error() returns the text. A function that fails sets its output arguments to NULL or 0, except
// `done` of ddp_work_test() and ddp_work_wait_for().
//
// Handles. ddp_group, ddp_work and ddp_progress are opaque. A handle is a number in the form of a pointer, and the
// library never reuses it. A function that is given a destroyed or invalid handle returns DDP_ERROR_INVALID_ARGUMENT.
// The *_destroy functions and ddp_free() do nothing with NULL.
//
// Work. The last argument of a collective, of send and of recv is `ddp_work** work`. If it is NULL, the call blocks
// until the operation is done and returns the operation's status. Otherwise the call returns at once and stores a
// handle, which the caller must destroy. The buffers must stay valid until the operation is done.
//
// Threads. Every function may be called from any thread. Calls of several threads on one group are put into one order,
// which must be the same on all ranks. The program must not cancel a thread inside one of these functions
// (pthread_cancel) or leave such a function by longjmp. A child that was forked after ddp_init() must not call any of
// them.
//
// Growth. Values of enumerations never change. Structures begin with struct_size = sizeof(the structure), and new
// fields are added only at the end. A field that is 0 has its default. Functions may be added, but their arguments
// never change.
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

// This number increases if a program that was compiled against an older header could no longer run.
#define DDP_C_ABI_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

// The statuses are grouped by what the caller can do about them, as ddp::ErrorKind.
enum ddp_status {
  DDP_OK = 0,
  DDP_ERROR_INVALID_ARGUMENT = 1,  // correct the call
  DDP_ERROR_TIMEOUT = 2,           // a peer did not answer in time; exit and let the launcher restart the job
  DDP_ERROR_PEER_LOST = 3,         // a peer is gone; exit and let the launcher restart the job
  DDP_ERROR_MISMATCH = 4,          // the ranks called different operations
  DDP_ERROR_UNAVAILABLE = 5,       // the request does not work here, or memory ran out; use an alternative
  DDP_ERROR_ABORTED = 6,           // the group was closed, or an earlier operation failed
  DDP_ERROR_CORRUPT = 7,           // a file's content differs from what was written
  DDP_ERROR_INTERNAL = 8           // a defect of the runtime; report it
};

// Lists the element types of buffers. Calls take them as int32_t.
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

// Lists the reductions of the values of all ranks. Calls take them as int32_t. ddp/reduce_op.h defines each of them.
enum ddp_op {
  DDP_OP_SUM = 0,
  DDP_OP_AVERAGE = 1,  // for floating-point types
  DDP_OP_PRODUCT = 2,
  DDP_OP_MIN = 3,
  DDP_OP_MAX = 4,
  DDP_OP_BIT_AND = 5,  // for integer types and bool, as the next two
  DDP_OP_BIT_OR = 6,
  DDP_OP_BIT_XOR = 7,
  DDP_OP_PREMULTIPLIED_SUM = 8  // for floating-point types; scales by each rank's ddp_call_options.factor
};

// Selects host or GPU memory for a buffer.
enum ddp_device { DDP_DEVICE_CPU = 0, DDP_DEVICE_CUDA = 1 };

// Lists what this process may be doing, for ddp_progress_begin(). The library itself reports all phases except
// evaluation, checkpoint and data loading.
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
typedef struct ddp_work ddp_work;          // an operation in progress, as ddp::Work
typedef struct ddp_progress ddp_progress;  // a phase that has begun, as ddp::PhaseScope

typedef struct ddp_init_options {
  size_t struct_size;
  const char* backend;       // "cpu", "gloo", "nccl", "mpi" or a list: "nccl,gloo"; NULL means DDP_BACKEND or the best
  const char* init_method;   // "env://", "tcp://HOST:PORT?rank=R&world_size=N", "file:///PATH?..."; NULL means "env://"
  int64_t timeout_ms;        // time limit of each operation; 0 means 10 minutes, and no limit under ddplaunch
  int64_t store_timeout_ms;  // time limit of each store call; 0 means 5 minutes
  int32_t rank;              // used only if world_size is not 0
  int32_t world_size;        // 0 if the environment or init_method gives rank and world size
} ddp_init_options;

#define DDP_INIT_OPTIONS_INIT \
  { sizeof(ddp_init_options), NULL, NULL, 0, 0, 0, 0 }

// Holds the options of a single call. If the pointer is NULL, all options have their defaults.
typedef struct ddp_call_options {
  size_t struct_size;
  int64_t timeout_ms;  // 0 means the group's time-out
  const char* name;    // shown in messages; must be the same on all ranks, for example "bucket 3"; copied
  void* stream;        // a cudaStream_t for nccl; used only if has_stream is not 0
  double factor;       // used by DDP_OP_PREMULTIPLIED_SUM
  int32_t has_stream;
  int32_t device;  // enum ddp_device of all buffers of the call
} ddp_call_options;

#define DDP_CALL_OPTIONS_INIT \
  { sizeof(ddp_call_options), 0, NULL, NULL, 0, 0, DDP_DEVICE_CPU }

// Describes the data that one rank gives or gets, for calls whose counts differ between ranks.
typedef struct ddp_part {
  void* data;
  int64_t count;  // elements
} ddp_part;

// Describes the last error of this thread. The library sets struct_size. A field exists if it lies within that size.
typedef struct ddp_error_details {
  size_t struct_size;
  int32_t status;         // enum ddp_status
  int32_t peer;           // the rank of the group that is gone, late or different; -1 if unknown
  const char* text;       // the text that ddp_last_error() returns
  const char* group;      // the group's name for a failed operation; otherwise ""
  const char* operation;  // the name of the failed operation, such as "all_reduce"; otherwise ""
  int64_t sequence;       // the number of the failed operation on the group, from 1; otherwise 0
  int32_t rank;           // this process's rank in the group of a failed operation; otherwise -1
  int32_t reserved;
} ddp_error_details;

// ---- The library and its errors ------------------------------------------------------------------------------------

// Return the version, such as "0.1.0", and the DDP_C_ABI_VERSION of the library.
DDP_C_API const char* ddp_version(void);
DDP_C_API int ddp_c_abi_version(void);

// Returns the name of a status, such as "peer_lost", or "unknown" for other numbers.
DDP_C_API const char* ddp_status_name(int status);

// Return the text and the details of the last failed call on this thread. The text is "" if no call has failed. It says
// what was tried, on which rank and group, why it failed and what to do. The result is valid until another call fails
// on this thread; a call that succeeds does not change it.
DDP_C_API const char* ddp_last_error(void);
DDP_C_API const ddp_error_details* ddp_last_error_details(void);

// ---- The environment; may be called before ddp_init() --------------------------------------------------------------

DDP_C_API int ddp_local_rank(int32_t* local_rank);        // this process's rank on its node; it selects the GPU
DDP_C_API int ddp_local_size(int32_t* local_size);        // number of the job's processes on this node
DDP_C_API int ddp_restart_count(int32_t* restart_count);  // 0 in the first attempt

// ---- Groups --------------------------------------------------------------------------------------------------------

// Joins the group of all ranks. `options` may be NULL. A process that no launcher started is a world of one.
DDP_C_API int ddp_init(const ddp_init_options* options, ddp_group** world);

// Makes a group of some ranks of `group`. Rank i of it is ranks[i]. Only these ranks call it, each with the same list.
// It blocks until all of them have called it. `name` may be NULL.
DDP_C_API int ddp_new_group(ddp_group* group, const int32_t* ranks, int64_t count, const char* name, ddp_group** made);

// Makes one group per color, with its ranks in the order of (key, rank). Every rank must call it, and it blocks. A
// negative color stores NULL in `made`.
DDP_C_API int ddp_split(ddp_group* group, int32_t color, int32_t key, ddp_group** made);

DDP_C_API int ddp_group_rank(const ddp_group* group, int32_t* rank);
DDP_C_API int ddp_group_size(const ddp_group* group, int32_t* size);
// The texts are valid until the group is destroyed.
DDP_C_API int ddp_group_name(const ddp_group* group, const char** name);
DDP_C_API int ddp_group_backend(const ddp_group* group, const char** backend);        // "cpu", "gloo", "nccl", "mpi"
DDP_C_API int ddp_group_backend_reason(const ddp_group* group, const char** reason);  // why this backend was chosen

// Waits until all operations are done, then until all ranks have called it, then leaves the group. Later calls return
// DDP_ERROR_ABORTED.
DDP_C_API int ddp_finalize(ddp_group* group);

// Makes all operations of the group, and all later ones, fail with DDP_ERROR_ABORTED. Other ranks see this rank as
// lost.
DDP_C_API int ddp_abort(ddp_group* group);

// Waits for the running operation. Operations that have not begun fail with DDP_ERROR_ABORTED. If the program itself
// failed, call ddp_abort() first, because the running operation may wait for other ranks.
DDP_C_API int ddp_group_destroy(ddp_group* group);

// ---- Collectives. n is the group's size, and r is this rank. `options` and `work` may be NULL. ---------------------

// These functions work in place. Afterwards `buffer` holds the reduction over all ranks; with ddp_reduce(), only on
// `root`.
DDP_C_API int ddp_all_reduce(ddp_group* group, void* buffer, int64_t count, int32_t type, int32_t op,
                             const ddp_call_options* options, ddp_work** work);
DDP_C_API int ddp_reduce(ddp_group* group, void* buffer, int64_t count, int32_t type, int32_t op, int32_t root,
                         const ddp_call_options* options, ddp_work** work);

// Copies `buffer` of `root` to all other ranks.
DDP_C_API int ddp_broadcast(ddp_group* group, void* buffer, int64_t count, int32_t type, int32_t root,
                            const ddp_call_options* options, ddp_work** work);

// `input` has `count` elements, and `output` n * count. `output` receives the inputs of rank 0, 1, ...; with
// ddp_gather(), only on `root`.
DDP_C_API int ddp_all_gather(ddp_group* group, const void* input, void* output, int64_t count, int32_t type,
                             const ddp_call_options* options, ddp_work** work);
DDP_C_API int ddp_gather(ddp_group* group, const void* input, void* output, int64_t count, int32_t type, int32_t root,
                         const ddp_call_options* options, ddp_work** work);

// `output` has `count` elements, and receives the r-th part of the n * count elements of `input` on `root`.
DDP_C_API int ddp_scatter(ddp_group* group, const void* input, void* output, int64_t count, int32_t type, int32_t root,
                          const ddp_call_options* options, ddp_work** work);

// `output` has `count` elements, and receives the r-th part of the reduction of all inputs, each of n * count elements.
DDP_C_API int ddp_reduce_scatter(ddp_group* group, const void* input, void* output, int64_t count, int32_t type,
                                 int32_t op, const ddp_call_options* options, ddp_work** work);

// Both buffers have n * count elements. The i-th part of `output` receives the r-th part of rank i's input.
DDP_C_API int ddp_all_to_all(ddp_group* group, const void* input, void* output, int64_t count, int32_t type,
                             const ddp_call_options* options, ddp_work** work);

// These functions take one part per rank (`parts` is n), and the counts may differ. outputs[i] receives the data from
// rank i, and inputs[i] holds the data for rank i. Only `root` needs the parts of gather and scatter.
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

// Rank `to` must call ddp_recv() with the same count and type. A rank cannot send to itself.
DDP_C_API int ddp_send(ddp_group* group, const void* buffer, int64_t count, int32_t type, int32_t to,
                       const ddp_call_options* options, ddp_work** work);
DDP_C_API int ddp_recv(ddp_group* group, void* buffer, int64_t count, int32_t type, int32_t from,
                       const ddp_call_options* options, ddp_work** work);

// The operation is done when every rank has called it.
DDP_C_API int ddp_barrier(ddp_group* group, const ddp_call_options* options, ddp_work** work);

// Blocks until every rank has called it. On failure it returns DDP_ERROR_TIMEOUT, and the text names the ranks that did
// not call it. It uses the store, so that it works while a collective hangs. A timeout_ms of 0 means the group's
// time-out.
DDP_C_API int ddp_monitored_barrier(ddp_group* group, int64_t timeout_ms);

// ---- Operations in progress ----------------------------------------------------------------------------------------

// Blocks until the operation is done, and returns its status. If the call has a stream, it blocks only until the
// operation has begun, and the stream then waits for it. A repeated call returns the same status and text. It does not
// destroy the handle.
DDP_C_API int ddp_work_wait(ddp_work* work);

// Waits like ddp_work_wait(), but at most timeout_ms. If the time passes, *done is 0, the status is DDP_OK, and the
// operation continues. *done is 1 if the operation is done or has failed.
DDP_C_API int ddp_work_wait_for(ddp_work* work, int64_t timeout_ms, int32_t* done);

// Does not block. *done is 1 if the operation is done, and the status is then that of the operation.
DDP_C_API int ddp_work_test(ddp_work* work, int32_t* done);

// Destroys the handle, but does not cancel the operation.
DDP_C_API int ddp_work_destroy(ddp_work* work);

// ---- Memory --------------------------------------------------------------------------------------------------------

// Allocates the memory that this group's collectives use fastest (ProcessGroup::allocate). It is zeroed and aligned to
// 64 bytes. `device` is an enum ddp_device. The memory may outlive the group.
DDP_C_API int ddp_allocate(ddp_group* group, int64_t bytes, int32_t device, void** data);

// Allocates host memory, which is page-locked with nccl.
DDP_C_API int ddp_allocate_pinned(ddp_group* group, int64_t bytes, void** data);

// Ends the group's use of a cudaStream_t. Call it before the program destroys a stream that it has given to the group
// (ProcessGroup::forget). Operations on the stream must have been waited for. It does not block, and the stream may
// still hold work. Returns DDP_ERROR_INVALID_ARGUMENT if the stream captures a CUDA graph.
DDP_C_API int ddp_forget_stream(ddp_group* group, void* stream);

// Frees memory of the two functions above. No operation may be using it. Other addresses are refused.
DDP_C_API int ddp_free(void* data);

// ---- Progress reports for ddplaunch. The names differ from those of ddp_page.h; both headers can be included. -----

// Reports that the program makes progress, for example after each step.
DDP_C_API int ddp_progress_heartbeat(void);

// Sets `stop` to 1 if ddplaunch has asked the program to save and to exit (--save-grace), else to 0. Ranks may see the
// request at different steps. Ranks that must agree can reduce the value.
DDP_C_API int ddp_progress_should_stop(int32_t* stop);

// Reports how many steps are done, and the total (0 if unknown). Hang reports show the numbers. The call counts as
// progress, like a heartbeat.
DDP_C_API int ddp_progress_report(int64_t done, int64_t total);

// Does the same, and reports `count` values of the program, such as the loss. ddplaunch shows up to 8 values, and the
// first 23 bytes of each name. A value may be infinite or NaN. The texts are copied.
//
//   const char* const names[] = {"loss", "tokens per second"};
//   const double values[] = {loss, speed};
//   ddp_progress_report_values(step, total, 2, names, values);
DDP_C_API int ddp_progress_report_values(int64_t done, int64_t total, size_t count, const char* const* names,
                                         const double* values);

// Announces that this process may be busy for so long. Until then ddplaunch does not regard it as hanging.
DDP_C_API int ddp_progress_extend(int64_t seconds);

// Reports that this process is in `phase` (enum ddp_progress_phase) until the caller ends the handle. Phases may be
// nested, and end in the reverse order. `name` may be NULL.
DDP_C_API int ddp_progress_begin(int32_t phase, const char* name, ddp_progress** progress);
DDP_C_API int ddp_progress_end(ddp_progress* progress);

// ---- The place in the program --------------------------------------------------------------------------------------

// Sets the file and line that messages and hang reports show for the next operation of this thread. `file` is copied,
// and NULL means unknown. In C and C++ the macros below call this function. Bindings of other languages may call it
// themselves.
DDP_C_API void ddp_called_from(const char* file, int line);

#ifdef __cplusplus
}
#endif

// Each macro calls the function of the same name. Its address is still that of the function: &ddp_all_reduce.
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

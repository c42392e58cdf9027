// c_abi_worker MODE: runs a rank that uses only the C interface, for integration/c_abi_test.py. It is compiled as
// strict C99.
//
//   mismatch   rank 1 passes another count than the others
//   killed     rank 1 kills itself, and the others continue
//   phase      rank 1 evaluates forever, and the others wait for it
//   gpu        reduces memory of a GPU in software, which the program can read and write
//   unended    returns from main() without ddp_finalize() and ddp_group_destroy()
#define _POSIX_C_SOURCE 200809L

#include <ddp/c.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// Prints one line: "STATUS peer=P sequence=N operation=NAME group=NAME: TEXT".
static void print_error(int status) {
  const ddp_error_details* details = ddp_last_error_details();
  printf("%s peer=%d sequence=%d operation=%s group=%s: %s\n", ddp_status_name(status), (int)details->peer,
         (int)details->sequence, details->operation, details->group, details->text);
  fflush(stdout);
}

static int fail(int status) {
  print_error(status);
  return 3;
}

static int all_reduce_until_it_fails(ddp_group* world, int32_t rank, int steps, int64_t last_count) {
  int status = DDP_OK;
  for (int step = 1; status == DDP_OK && step < 1000000; ++step) {
    double values[8] = {0};
    const int is_last = step == steps && rank == 1;
    if (is_last && last_count == 0) raise(SIGKILL);
    status = ddp_all_reduce(world, values, is_last ? last_count : 4, DDP_TYPE_F64, DDP_OP_SUM, NULL, NULL);
  }
  return fail(status);
}

static int evaluate(ddp_group* world, int32_t rank) {
  if (rank != 1) return fail(ddp_barrier(world, NULL, NULL));
  ddp_progress* progress = NULL;
  const int status = ddp_progress_begin(DDP_PROGRESS_EVALUATION, "validation set", &progress);
  if (status != DDP_OK) return fail(status);
  for (;;) pause();
}

static int reduce_on_gpu(ddp_group* world, int32_t rank) {
  ddp_call_options options = DDP_CALL_OPTIONS_INIT;
  options.device = DDP_DEVICE_CUDA;
  void* data = NULL;
  int status = ddp_allocate(world, 2 * sizeof(float), DDP_DEVICE_CUDA, &data);
  if (status != DDP_OK) return fail(status);
  float* values = data;
  values[0] = values[1] = (float)(rank + 1);
  status = ddp_all_reduce(world, values, 2, DDP_TYPE_F32, DDP_OP_SUM, &options, NULL);
  if (status != DDP_OK) return fail(status);
  printf("sum on the GPU: %.0f\n", values[1]);
  status = ddp_free(data);
  if (status == DDP_OK) status = ddp_finalize(world);
  if (status == DDP_OK) status = ddp_group_destroy(world);
  return status == DDP_OK ? 0 : fail(status);
}

int main(int argc, char** argv) {
  const char* mode = argc == 2 ? argv[1] : "";
  // The launcher terminates the other ranks when a rank fails. They ignore SIGTERM, to print their own error first.
  if (strcmp(mode, "killed") == 0 || strcmp(mode, "mismatch") == 0) signal(SIGTERM, SIG_IGN);

  ddp_group* world = NULL;
  int32_t rank = -1;
  int status = ddp_init(NULL, &world);
  if (status == DDP_OK) status = ddp_group_rank(world, &rank);
  if (status != DDP_OK) return fail(status);

  if (strcmp(mode, "mismatch") == 0) return all_reduce_until_it_fails(world, rank, 3, 5);
  if (strcmp(mode, "killed") == 0) return all_reduce_until_it_fails(world, rank, 3, 0);
  if (strcmp(mode, "phase") == 0) return evaluate(world, rank);
  if (strcmp(mode, "gpu") == 0) return reduce_on_gpu(world, rank);
  if (strcmp(mode, "unended") == 0) {
    double value = 1;
    status = ddp_all_reduce(world, &value, 1, DDP_TYPE_F64, DDP_OP_SUM, NULL, NULL);
    return status == DDP_OK ? 0 : fail(status);
  }
  fprintf(stderr, "c_abi_worker: there is no mode '%s'\n", mode);
  return 2;
}

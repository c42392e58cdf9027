// This example uses the runtime from C. Each rank has a row of numbers. All ranks compute the mean of each column and
// the largest number of all. It is compiled without C++, and the C linker links it with libddp_runtime.
//
//   ddplaunch --nproc-per-node=2 c_all_reduce
#include <ddp/c.h>

#include <stdio.h>

enum { kColumns = 4 };

// Prints the error. The text names the rank, the group and the operation, and says why it failed.
static int failed(void) {
  fprintf(stderr, "c_all_reduce: %s: %s\n", ddp_status_name(ddp_last_error_details()->status), ddp_last_error());
  return 1;
}

// The mean is computed while the ranks reduce the largest number.
static int reduce(ddp_group* world, double* row, double* largest) {
  ddp_call_options options = DDP_CALL_OPTIONS_INIT;
  options.name = "largest number";
  *largest = row[0];
  for (int i = 1; i < kColumns; ++i) {
    if (row[i] > *largest) *largest = row[i];
  }

  ddp_work* mean = NULL;
  if (ddp_all_reduce(world, row, kColumns, DDP_TYPE_F64, DDP_OP_AVERAGE, NULL, &mean) != DDP_OK) return failed();
  const int status = ddp_all_reduce(world, largest, 1, DDP_TYPE_F64, DDP_OP_MAX, &options, NULL);
  const int mean_status = ddp_work_wait(mean);  // `row` is in use until the operation is done, also after a failure
  ddp_work_destroy(mean);
  return status != DDP_OK || mean_status != DDP_OK ? failed() : 0;
}

int main(void) {
  ddp_group* world = NULL;
  int32_t rank = 0;
  int32_t size = 0;
  const char* backend = "";
  if (ddp_init(NULL, &world) != DDP_OK || ddp_group_rank(world, &rank) != DDP_OK ||
      ddp_group_size(world, &size) != DDP_OK || ddp_group_backend(world, &backend) != DDP_OK) {
    return failed();
  }

  double row[kColumns];
  double largest = 0;
  for (int i = 0; i < kColumns; ++i) row[i] = rank + 10.0 * i;
  if (reduce(world, row, &largest) != 0) return 1;
  if (rank == 0) {
    printf("mean of %d ranks over %s: %.1f %.1f %.1f %.1f, largest %.1f\n", (int)size, backend, row[0], row[1], row[2],
           row[3], largest);
  }

  if (ddp_finalize(world) != DDP_OK) return failed();
  return ddp_group_destroy(world) == DDP_OK ? 0 : failed();
}

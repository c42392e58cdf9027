#include <ddp/c.h>

#include <stdio.h>

int main(void) {
  ddp_group* world = NULL;
  int32_t rank = 0;
  float sum = 1;
  if (ddp_init(NULL, &world) != DDP_OK || ddp_group_rank(world, &rank) != DDP_OK ||
      ddp_all_reduce(world, &sum, 1, DDP_TYPE_F32, DDP_OP_SUM, NULL, NULL) != DDP_OK || ddp_finalize(world) != DDP_OK) {
    fprintf(stderr, "c_consumer: %s\n", ddp_last_error());
    return 1;
  }
  if (rank == 0) printf("sum in C: %.0f\n", sum);
  return ddp_group_destroy(world);
}

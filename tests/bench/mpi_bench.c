/* mpi_bench ITERATIONS BYTES...: measures MPI_Allreduce of f32. Rank 0 prints {"BYTES": µs, ...}: medians of the time
 * that the slowest rank took. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return x < y ? -1 : x > y;
}

int main(int argc, char** argv) {
  int rank = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int iterations = atoi(argv[1]);
  if (rank == 0) printf("{");
  for (int i = 2; i < argc; ++i) {
    const size_t bytes = strtoull(argv[i], NULL, 10);
    const int count = (int)(bytes / sizeof(float));
    int runs = (int)(iterations / (1 + (double)bytes / 2e5));
    if (runs < 7) runs = 7;
    float* values = calloc((size_t)count, sizeof(float));
    double* times = calloc((size_t)runs, sizeof(double));
    for (int run = -2; run < runs; ++run) {
      MPI_Barrier(MPI_COMM_WORLD);
      const double begin = MPI_Wtime();
      MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      if (run >= 0) times[run] = (MPI_Wtime() - begin) * 1e6;
    }
    MPI_Allreduce(MPI_IN_PLACE, times, runs, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    qsort(times, (size_t)runs, sizeof(double), ascending);
    if (rank == 0) printf("%s\"%s\": %.3f", i > 2 ? ", " : "", argv[i], times[runs / 2]);
    free(values);
    free(times);
  }
  if (rank == 0) printf("}\n");
  MPI_Finalize();
  return 0;
}

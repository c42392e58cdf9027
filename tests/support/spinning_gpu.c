// Replaces a function of CUDA's runtime by one that waits as CUDA does by default: it spins until the time is over.
#include <time.h>

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

// In CUDA, the argument is a stream. Here it is the time in seconds.
int cudaStreamSynchronize(double seconds) {
  const double end = now() + seconds;
  while (now() < end) {
  }
  return 0;
}

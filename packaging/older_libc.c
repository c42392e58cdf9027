// What the compiler's C++ library wants of the C library and Debian 11's does not have yet.
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#pragma GCC visibility push(hidden)

// "Is this process known to have one thread only?" (glibc 2.32). No: reference counts are always atomic then.
char __libc_single_threaded = 0;

// For std::random_device (glibc 2.36).
uint32_t arc4random(void) {
  uint32_t number = 0;
  if (getentropy(&number, sizeof number) != 0) abort();
  return number;
}

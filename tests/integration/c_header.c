// This file is only compiled, as several kinds of C and as C++, with all warnings. It shows that <ddp/c.h> is complete
// by itself, and that it can be included twice and together with ddp_page.h (which needs C11).
#include <ddp/c.h>

#if defined(__cplusplus) || __STDC_VERSION__ >= 201112L
#include "ddp_page.h"
#define SEND_HEARTBEAT() ddp_heartbeat(ddp_page_open())
#else
#define SEND_HEARTBEAT() ((void)0)
#endif

int c_header_is_usable(ddp_group* world);

int c_header_is_usable(ddp_group* world) {
  ddp_init_options init = DDP_INIT_OPTIONS_INIT;
  ddp_call_options call = DDP_CALL_OPTIONS_INIT;
  ddp_work* work = NULL;
  float value = 0;
  int (*function)(ddp_group*, const ddp_call_options*, ddp_work**) = ddp_barrier;
  SEND_HEARTBEAT();
  return ddp_init(&init, &world) + ddp_all_reduce(world, &value, 1, DDP_TYPE_F32, DDP_OP_SUM, &call, &work) +
         ddp_barrier(world, NULL, NULL) + function(world, &call, &work) + ddp_progress_heartbeat();
}

#include <ddp/c.h>

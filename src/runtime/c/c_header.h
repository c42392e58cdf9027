// Includes <ddp/c.h> without the macros that add the place in the program, so that functions can be defined under their
// own names.
#pragma once

#ifndef DDP_NO_CALL_SITES
#define DDP_NO_CALL_SITES
#endif
#include <ddp/c.h>

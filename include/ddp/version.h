// This header defines the version of ddplaunch. Launcher and runtime carry the same number (semantic versioning).
#pragma once

#define DDP_VERSION_MAJOR 0
#define DDP_VERSION_MINOR 1
#define DDP_VERSION_PATCH 0

#define DDP_STRINGIZE_(x) #x
#define DDP_STRINGIZE(x) DDP_STRINGIZE_(x)
#define DDP_VERSION_STRING         \
  DDP_STRINGIZE(DDP_VERSION_MAJOR) \
  "." DDP_STRINGIZE(DDP_VERSION_MINOR) "." DDP_STRINGIZE(DDP_VERSION_PATCH)

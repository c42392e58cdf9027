# Required packages: what scripts/setup installs. Optional parts: found, used and reported (see Summary.cmake).
find_program(CCACHE ccache)
if(CCACHE)
  # Also with precompiled headers, and for every clone of the repository alike.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros
    CCACHE_BASEDIR=${CMAKE_CURRENT_SOURCE_DIR} ${CCACHE})
endif()

find_package(Threads REQUIRED)
find_package(Boost 1.81 REQUIRED CONFIG)
find_package(nlohmann_json REQUIRED)
find_package(Gloo REQUIRED)

if(DDP_BUILD_LAUNCHER)
  find_package(CLI11 REQUIRED)
  find_package(spdlog REQUIRED)
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(hwloc REQUIRED IMPORTED_TARGET hwloc>=2.1)
  pkg_check_modules(libdw REQUIRED IMPORTED_TARGET libdw>=0.164)

  # Linked as an archive where there is one: of libsodium the launcher needs a few functions, and starts sooner.
  pkg_check_modules(libsodium REQUIRED libsodium>=1.0.12)
  find_library(DDP_SODIUM_LIBRARY NAMES libsodium.a sodium HINTS ${libsodium_LIBRARY_DIRS} REQUIRED)
  mark_as_advanced(DDP_SODIUM_LIBRARY)
  add_library(ddp_sodium INTERFACE)
  target_include_directories(ddp_sodium SYSTEM INTERFACE ${libsodium_INCLUDE_DIRS})
  target_link_libraries(ddp_sodium INTERFACE ${DDP_SODIUM_LIBRARY} Threads::Threads)
endif()

# Debian's Gloo target names no include directory of its own; /usr/include is searched anyway.
set(DDP_HAVE_MPI OFF)
set(DDP_HAVE_TORCH OFF)

if(DDP_WITH_MPI)
  find_package(MPI QUIET COMPONENTS C)
  set(DDP_HAVE_MPI ${MPI_C_FOUND})
endif()

if(DDP_WITH_TORCH)
  find_package(Torch QUIET)
  if(TARGET torch)
    set(DDP_HAVE_TORCH ON)
  endif()
endif()

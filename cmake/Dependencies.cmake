# scripts/setup installs the required packages. Optional packages are used if they are found; Summary.cmake reports
# them.
find_program(CCACHE ccache)
if(CCACHE)
  # These settings make ccache work with precompiled headers, and share its cache between clones of the repository.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros
    CCACHE_BASEDIR=${CMAKE_CURRENT_SOURCE_DIR} ${CCACHE})
endif()

find_package(Threads REQUIRED)
find_package(Boost 1.81 REQUIRED CONFIG)
find_package(nlohmann_json REQUIRED)
include(Gloo)

if(DDP_BUILD_LAUNCHER)
  find_package(CLI11 REQUIRED)
  find_package(spdlog REQUIRED)
  find_package(PkgConfig REQUIRED)
  include(CheckCXXSourceCompiles)
  # These libraries are linked as archives if archives exist. The launcher then starts faster, and runs on systems
  # without the libraries.
  function(ddp_find_archives target condition)
    pkg_check_modules(${target} REQUIRED ${condition})
    add_library(${target} INTERFACE)
    target_include_directories(${target} SYSTEM INTERFACE ${${target}_INCLUDE_DIRS})
    foreach(library IN LISTS ARGN)
      find_library(${target}_${library} NAMES lib${library}.a ${library} HINTS ${${target}_LIBRARY_DIRS} REQUIRED)
      mark_as_advanced(${target}_${library})
      target_link_libraries(${target} INTERFACE ${${target}_${library}})
    endforeach()
    target_link_libraries(${target} INTERFACE Threads::Threads ${CMAKE_DL_LIBS})
  endfunction()
  ddp_find_archives(ddp_hwloc hwloc>=2.1 hwloc)
  ddp_find_archives(ddp_dw libdw>=0.164 dw elf lzma bz2 z)
  # Debian 13's archive needs functions of an archive that Debian 13 does not have.
  get_target_property(CMAKE_REQUIRED_LIBRARIES ddp_dw INTERFACE_LINK_LIBRARIES)
  check_cxx_source_compiles("#include <elfutils/libdw.h>\nint main() { return dwarf_begin(0, DWARF_C_READ) != nullptr; }"
                            DDP_DW_ARCHIVE_LINKS)
  unset(CMAKE_REQUIRED_LIBRARIES)
  if(NOT DDP_DW_ARCHIVE_LINKS)
    pkg_check_modules(libdw REQUIRED IMPORTED_TARGET libdw)
    set_target_properties(ddp_dw PROPERTIES INTERFACE_LINK_LIBRARIES PkgConfig::libdw)
  endif()
  ddp_find_archives(ddp_sodium libsodium>=1.0.12 sodium)
  ddp_find_archives(ddp_zlib zlib>=1.2.11 z)
endif()

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

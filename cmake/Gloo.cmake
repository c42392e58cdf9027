# The target ddp_gloo contains the part of Gloo that the runtime uses: its connections between ranks. It is compiled
# here, in the namespace ddp_gloo: see docs/development/decisions/0039-private-gloo.md.
include(FetchContent)
set(gloo_archive gloo_0.0~git20231202.5354032.orig.tar.xz)

set(DDP_GLOO_URL "" CACHE STRING "Where to get ${gloo_archive}: URLs or a file; empty: where apt gets packages from")
set(gloo_urls ${DDP_GLOO_URL})
if(NOT gloo_urls)
  execute_process(COMMAND apt-get indextargets --format "$(REPO_URI)" "Created-By: Packages"
                  OUTPUT_VARIABLE mirrors ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  string(REPLACE "\n" ";" mirrors "${mirrors}")
  list(FILTER mirrors INCLUDE REGEX "^https?://")
  list(REMOVE_DUPLICATES mirrors)
  list(TRANSFORM mirrors REPLACE "(.*[^/])/*$" "\\1/pool/main/g/gloo/${gloo_archive}" OUTPUT_VARIABLE gloo_urls)
endif()
if(NOT gloo_urls AND NOT FETCHCONTENT_SOURCE_DIR_DDP_GLOO)
  message(FATAL_ERROR "The build needs the source of Gloo, but apt is configured without a Debian mirror. Download ${gloo_archive} from "
    "any mirror (directory pool/main/g/gloo), and configure with -DDDP_GLOO_URL=<that file>")
endif()
# Gloo's CMakeLists.txt is not used: SOURCE_SUBDIR names a directory without one.
FetchContent_Declare(ddp_gloo URL ${gloo_urls} SOURCE_SUBDIR docs
  URL_HASH SHA256=66d6fadb7b07cfcff08f74ae2acfab504e780d6b7536ee74d2011718cda25030)
if(NOT EXISTS ${FETCHCONTENT_BASE_DIR}/ddp_gloo-src AND NOT FETCHCONTENT_SOURCE_DIR_DDP_GLOO)
  message(STATUS "Gloo: downloading ${gloo_urls}; without a network, use -DDDP_GLOO_URL=<a copy of that file>")
endif()
FetchContent_MakeAvailable(ddp_gloo)

# The next lines build the TCP transport and its rendezvous.
set(GLOO_VERSION_MAJOR 0)
set(GLOO_VERSION_MINOR 5)
set(GLOO_VERSION_PATCH 0)
set(GLOO_HAVE_TRANSPORT_TCP ON)
configure_file(${ddp_gloo_SOURCE_DIR}/gloo/config.h.in ${ddp_gloo_BINARY_DIR}/include/gloo/config.h)
set(gloo_sources context types common/linux common/logging common/utils
  rendezvous/context rendezvous/prefix_store rendezvous/store
  transport/address transport/buffer transport/context transport/device transport/pair transport/unbound_buffer
  transport/tcp/address transport/tcp/buffer transport/tcp/context transport/tcp/device transport/tcp/error
  transport/tcp/listener transport/tcp/loop transport/tcp/pair transport/tcp/socket transport/tcp/unbound_buffer)
list(TRANSFORM gloo_sources REPLACE "(.+)" "${ddp_gloo_SOURCE_DIR}/gloo/\\1.cc")
add_library(ddp_gloo STATIC ${gloo_sources})
set_source_files_properties(${ddp_gloo_SOURCE_DIR}/gloo/transport/tcp/loop.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
target_include_directories(ddp_gloo SYSTEM PUBLIC ${ddp_gloo_SOURCE_DIR} ${ddp_gloo_BINARY_DIR}/include)
# The namespace makes its symbols differ from those of libtorch and Debian's libgloo.
target_compile_definitions(ddp_gloo PUBLIC gloo=ddp_gloo)
target_compile_options(ddp_gloo PRIVATE -w -ffile-prefix-map=${ddp_gloo_SOURCE_DIR}/=)
target_link_libraries(ddp_gloo PUBLIC Threads::Threads)
